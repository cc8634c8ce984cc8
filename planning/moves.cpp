#include "planning/moves.h"

#include <algorithm>
#include <span>
#include <utility>

namespace sectionflow::planning {

Moves::Moves(const FlatProblem& problem, bool order_fixed, std::int64_t budget, Sequence& sequence, SplitMix& random)
    : problem_(problem), order_fixed_(order_fixed), budget_(budget), sequence_(sequence), random_(random) {
  for (int i = 0; i < problem.num_values(); ++i) {
    if (problem.at_end[pos(i)] != 0) at_end_.push_back(i);
  }
}

void Moves::spread() {
  sequence_.spread();
  crowded_ = 0;
}

bool Moves::propose() {
  if (problem_.has_copies() && random_.below(2) == 0) return move_copy();
  return move_execution();
}

bool Moves::move_execution() {
  const int kind = random_.below(16);
  if (kind < 5) return repeat_before_reader();
  if (kind < 8) return take_repeat_away();
  if (kind < 14) return shift();
  return exchange();
}

/// An empty slot between two neighbours that are taken; -1: there is none.
int Moves::empty_between(int below, int above) {
  if (above - below < 2) {
    ++crowded_;
    return -1;
  }
  return below + 1 + random_.below(above - below - 1);
}

/// A slot and a value that is read there, by an execution or the plan's end; no value where nothing is read.
std::pair<int, int> Moves::random_reading() {
  const int reader = random_taken();
  if (!at_end_.empty() && random_.below(64) == 0) {
    return {sequence_.num_slots() - 1, at_end_[pos(random_.below(static_cast<int>(at_end_.size())))]};
  }
  const int operation = sequence_.operation_at(reader);
  const std::span<const int> inputs = problem_.inputs_of(operation);
  if (inputs.empty() || problem_.is_copy(operation)) return {reader, -1};
  return {reader, inputs[pos(random_.below(static_cast<int>(inputs.size())))]};
}

/// Has a value that is read after a while written anew shortly before, so that it need not stay.
bool Moves::repeat_before_reader() {
  auto [reader, value] = random_reading();
  if (value < 0) return false;
  const int producer = problem_.producer[pos(value)];
  if (!may_repeat(producer)) return false;
  const int used = sequence_.used_before(value, reader);
  if (used >= sequence_.taken_below(reader)) return false;
  if (random_.below(4) == 0) reader = sequence_.taken_above(used + random_.below(reader - used - 1));
  const int slot = empty_below(reader);
  if (slot <= used) return false;
  repeat_with_ancestors(producer, slot);
  return true;
}

void Moves::repeat_with_ancestors(int operation, int slot) {
  chance_of_ancestors_ = random_.below(3);
  repeats_left_ = 12;
  if (repeat_ancestors(operation, slot, sequence_.taken_below(slot))) sequence_.insert_deferred(operation, slot);
}

/// Whether in that slot something has been executed that ends the executions of `operation`.
bool Moves::is_ended(int operation, int slot) const {
  const std::span<const int> by = problem_.ended_by(operation);
  return std::any_of(by.begin(), by.end(), [&](int other) { return sequence_.executions(other).front() <= slot; });
}

/// Executes, above slot `floor`, some of the ancestors of `operation` that are not there before `slot`; false where it
/// must not be executed there itself.
bool Moves::repeat_ancestors(int operation, int slot, int floor) {
  --repeats_left_;
  if (is_ended(operation, slot)) return false;
  for (const int input : problem_.inputs_of(operation)) {
    if (chance_of_ancestors_ == 0 || repeats_left_ <= 0) break;
    const int producer = problem_.producer[pos(input)];
    if (!may_repeat(producer) && !is_copied_out(input, slot)) continue;
    if (sequence_.written_before(input, slot) > floor || sequence_.lives_until(input, slot) > slot) continue;
    if (chance_of_ancestors_ == 1 && random_.below(2) == 0) continue;
    const int earlier = empty_below(slot);
    if (earlier <= floor) continue;
    if (is_copied_out(input, earlier) && (!may_repeat(producer) || random_.below(4) > 0)) {
      sequence_.insert(problem_.copy_in_of(input), earlier);
    } else if (may_repeat(producer)) {
      if (repeat_ancestors(producer, earlier, floor)) sequence_.insert(producer, earlier);
    }
  }
  return true;
}

bool Moves::may_remove(int operation, int slot) const {
  if (problem_.is_copy(operation)) return true;
  const bool is_first = sequence_.executions(operation).front() == slot;
  if (is_first && (order_fixed_ || !problem_.before(operation).empty() || !problem_.after(operation).empty())) {
    return false;
  }
  return sequence_.is_removable(operation, slot);
}

/// An execution of an operation that is executed more than once, and its slot; -1 where there is none.
std::pair<int, int> Moves::random_repeat() {
  const std::vector<int>& repeated = sequence_.repeated();
  if (repeated.empty()) return {-1, -1};
  const int operation = repeated[pos(random_.below(static_cast<int>(repeated.size())))];
  const std::span<const int> slots = sequence_.executions(operation);
  return {operation, slots[pos(random_.below(static_cast<int>(slots.size())))]};
}

bool Moves::take_repeat_away() {
  const auto [operation, slot] = random_repeat();
  if (operation < 0 || !may_remove(operation, slot)) return false;
  take_away(operation, slot);
  return true;
}

/// With executions that served this one alone.
void Moves::take_away(int operation, int slot) {
  if (problem_.is_copy(operation)) return take_copy_away(operation, slot);
  sequence_.remove(operation, slot);
  for (const int input : problem_.inputs_of(operation)) {
    // Another of its outputs, read here too, may have taken away its executions before this one.
    const int written = sequence_.written_before(input, slot);
    if (written <= 0) continue;
    const int writer = sequence_.operation_at(written);
    if (!sequence_.is_unread(writer, written) || !may_remove(writer, written)) continue;
    if (random_.below(8) > 0) take_away(writer, written);
  }
}

/// Keeps what is made again, and has others made again that are there where memory is short then.
bool Moves::exchange() {
  constexpr int kMostOthers = 3;
  if (!take_repeat_away()) return false;
  for (int i = 0; i < kMostOthers && sequence_.peak() > budget_; ++i) {
    if (!relieve(sequence_.peak_slot())) return i > 0;
  }
  return true;
}

/// Has a value that is there in a slot, and is not used there, written anew before the next that reads it.
bool Moves::relieve(int slot) {
  constexpr int kTries = 12;
  for (int i = 0; i < kTries; ++i) {
    const int writer = random_taken(), operation = sequence_.operation_at(writer);
    if (writer >= slot || problem_.is_copy(operation) || !may_repeat(operation)) continue;
    const std::span<const int> outputs = problem_.outputs_of(operation);
    if (outputs.empty()) continue;
    const int value = outputs[pos(random_.below(static_cast<int>(outputs.size())))];
    if (sequence_.lives_until(value, slot) <= slot) continue;
    const int reader = sequence_.next_reader(value, slot);
    if (reader >= sequence_.num_slots() - 1 || sequence_.used_before(value, reader) >= slot) continue;
    const int target = empty_below(reader);
    if (target <= slot) continue;
    repeat_with_ancestors(operation, target);
    return true;
  }
  return false;
}

/// The slots between which an execution may be, both excluded.
std::pair<int, int> Moves::window(int operation, std::size_t index) const {
  const std::span<const int> slots = sequence_.executions(operation);
  int low = 0, high = index + 1 < slots.size() ? slots[index + 1] : sequence_.num_slots() - 1;
  const auto first = [&](int other) { return sequence_.executions(other).front(); };
  for (const int other : problem_.ended_by(operation)) high = std::min(high, first(other));
  if (index > 0) return {slots[index - 1], high};
  for (const int other : problem_.ends(operation)) low = std::max(low, sequence_.executions(other).back());
  for (const int input : problem_.inputs_of(operation)) {
    if (problem_.producer[pos(input)] >= 0) low = std::max(low, first(problem_.producer[pos(input)]));
  }
  for (const int output : problem_.outputs_of(operation)) {
    const std::span<const int> readers = sequence_.readers(output);
    if (!readers.empty()) high = std::min(high, readers.front());
  }
  for (const int other : problem_.before(operation)) low = std::max(low, first(other));
  for (const int other : problem_.after(operation)) high = std::min(high, first(other));
  if (order_fixed_) {
    if (operation > 0) low = std::max(low, first(operation - 1));
    if (operation + 1 < problem_.num_operations()) high = std::min(high, first(operation + 1));
  }
  return {low, high};
}

/// A few neighbours on, or anywhere where it may be.
bool Moves::shift() {
  const int slot = random_taken();
  const int operation = sequence_.operation_at(slot);
  if (problem_.is_copy(operation)) return shift_copy(slot);
  const std::span<const int> slots = sequence_.executions(operation);
  std::size_t index = 0;
  while (slots[index] != slot) ++index;
  const auto [low, high] = window(operation, index);
  return shift_within(slot, low, high);
}

/// To another slot between two that are excluded.
bool Moves::shift_within(int slot, int low, int high) {
  const int below = sequence_.taken_below(slot), above = sequence_.taken_above(slot);
  if (low >= below && high <= above) return false;
  int next;  // the neighbour before which it goes
  if (random_.below(2) == 0) {
    const int steps = 1 + random_.below(3);
    const bool down = random_.below(2) == 0;
    next = down ? slot : above;
    for (int i = 0; i < steps; ++i) next = down ? sequence_.taken_below(next) : sequence_.taken_above(next);
    if (next <= low || next > high) return false;
  } else {
    next = sequence_.taken_above(low + random_.below(high - low - 1));
  }
  if (next == slot || next == above) return false;
  const int target = empty_below(next);
  if (target < 0) return false;
  sequence_.shift_deferred(sequence_.operation_at(slot), slot, target);
  return true;
}

}  // namespace sectionflow::planning

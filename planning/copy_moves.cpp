#include <algorithm>
#include <span>
#include <utility>

#include "planning/moves.h"

namespace sectionflow::planning {

bool Moves::move_copy() {
  const int kind = random_.below(16);
  if (kind < 3) return copy_what_stays();
  if (kind < 4) return keep_what_is_copied();
  if (kind < 6) return copy_what_is_repeated();
  if (kind < 7) return repeat_what_is_copied();
  if (kind < 12) {
    const int slot = random_copy(false);
    return slot >= 0 && shift_copy(slot);
  }
  const bool less = random_.below(2) == 0 ? keep_what_is_copied() : repeat_what_is_copied();
  if (!less) return false;
  sequence_.link_deferred();
  return random_.below(2) == 0 ? copy_what_stays() : copy_what_is_repeated();
}

bool Moves::is_copied_out(int value, int slot) const {
  const int out = problem_.copy_out_of(value);
  return out >= 0 && !sequence_.executions(out).empty() && sequence_.executions(out).front() < slot;
}

/// The slot of a copy; -1 where none was come upon.
int Moves::random_copy(bool in_alone) {
  constexpr int kTries = 12;
  for (int i = 0; i < kTries; ++i) {
    const int slot = random_taken(), operation = sequence_.operation_at(slot);
    if (in_alone ? problem_.is_copy_in(operation) : problem_.is_copy(operation)) return slot;
  }
  return -1;
}

/// Has a value come back from host memory some time before `reader`, behind slot `used`; it leaves for it, where it has
/// not, soon after it is first written.
bool Moves::copy(int value, int used, int reader) {
  const int out = problem_.copy_out_of(value);
  int next = reader;
  if (random_.below(3) == 0) {
    next = sequence_.taken_above(used + random_.below(reader - used - 1));
  } else {
    for (int steps = random_.below(4); steps > 0; --steps) {
      const int below = sequence_.taken_below(next);
      if (below <= used) break;
      next = below;
    }
  }
  const int slot = empty_below(next);
  if (slot <= used) return false;
  if (sequence_.executions(out).empty()) {
    const int written = sequence_.first_written(value);
    if (written >= slot) return false;
    int behind = written;
    if (random_.below(3) == 0) {
      behind = sequence_.taken_below(written + 1 + random_.below(slot - written));
    } else {
      for (int steps = random_.below(2) == 0 ? random_.below(8) : 0; steps > 0; --steps) {
        const int above = sequence_.taken_above(behind);
        if (above >= slot) break;
        behind = above;
      }
    }
    const int leaves = empty_between(behind, std::min(sequence_.taken_above(behind), slot));
    if (leaves < 0) return false;
    sequence_.insert(out, leaves);
  } else if (sequence_.executions(out).front() >= slot) {
    return false;
  }
  sequence_.insert_deferred(out + 1, slot);
  return true;
}

bool Moves::copy_what_stays() {
  const auto [reader, value] = random_reading();
  if (value < 0 || problem_.copy_out_of(value) < 0) return false;
  const int used = sequence_.used_before(value, reader);
  return used < sequence_.taken_below(reader) && copy(value, used, reader);
}

void Moves::take_copy_away(int copy_in, int slot) {
  sequence_.remove(copy_in, slot);
  const int out = copy_in - 1;
  if (sequence_.executions(copy_in).empty()) sequence_.remove(out, sequence_.executions(out).front());
}

bool Moves::keep_what_is_copied() {
  const int slot = random_copy(true);
  if (slot < 0) return false;
  take_copy_away(sequence_.operation_at(slot), slot);
  return true;
}

/// Instead of executing something again.
bool Moves::copy_what_is_repeated() {
  const auto [operation, slot] = random_repeat();
  if (operation < 0 || problem_.is_copy(operation) || !may_remove(operation, slot)) return false;
  const std::span<const int> outputs = problem_.outputs_of(operation);
  if (outputs.empty()) return false;
  const int value = outputs[pos(random_.below(static_cast<int>(outputs.size())))];
  const int reader = sequence_.next_reader(value, slot);
  if (problem_.copy_out_of(value) < 0 || reader >= sequence_.num_slots()) return false;
  take_away(operation, slot);
  const int used = sequence_.used_before(value, reader);
  return used >= 0 && used < sequence_.taken_below(reader) && copy(value, used, reader);
}

bool Moves::repeat_what_is_copied() {
  const int copied = random_copy(true);
  if (copied < 0) return false;
  const int value = problem_.copied_by(sequence_.operation_at(copied));
  const int producer = problem_.producer[pos(value)];
  const int reader = sequence_.next_reader(value, copied);
  if (!may_repeat(producer) || reader >= sequence_.num_slots()) return false;
  take_copy_away(sequence_.operation_at(copied), copied);
  const int slot = empty_below(reader);
  if (slot <= sequence_.executions(producer).front()) return false;
  repeat_with_ancestors(producer, slot);
  return true;
}

/// A copy in to another slot between the last reader before and the next one; a copy out between where its value is
/// first written and where it is first copied in.
bool Moves::shift_copy(int slot) {
  const int operation = sequence_.operation_at(slot), value = problem_.copied_by(operation);
  if (!problem_.is_copy_in(operation)) {
    return shift_within(slot, sequence_.first_written(value), sequence_.executions(operation + 1).front());
  }
  return shift_within(slot, sequence_.used_before(value, slot), sequence_.next_reader(value, slot));
}

}  // namespace sectionflow::planning

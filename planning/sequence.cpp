#include "planning/sequence.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace sectionflow::planning {
Sequence::Sequence(const FlatProblem& problem, std::span<const int> order, std::span<const Absence> absences)
    : problem_(problem), units_(problem.bytes), workspaces_(problem.workspace) {
  choose_unit();
  assign(order, absences);
}

void Sequence::choose_unit() {
  std::int64_t unit = 0, all = 0;
  for (const auto* sizes : {&units_, &workspaces_}) {
    for (const std::int64_t size : *sizes) {
      unit = std::gcd(unit, size);
      all += size;
    }
  }
  unit_ = std::max<std::int64_t>(unit, 1);
  for (auto* sizes : {&units_, &workspaces_}) {
    for (std::int64_t& size : *sizes) size /= unit_;
  }
  most_units_ = all / unit_;
}

void Sequence::spread() {
  const std::vector<Absence> absences = this->absences();
  assign(order(), absences);
}

void Sequence::assign(std::span<const int> order, std::span<const Absence> absences) {
  constexpr int kSlotsPerExecution = 6;
  const int wanted = static_cast<int>(order.size()) * kSlotsPerExecution + 2;
  num_slots_ = std::max(num_slots_, static_cast<int>(std::bit_ceil(static_cast<unsigned>(wanted))));
  slot_operation_.assign(pos(num_slots_), -1);
  place_in_taken_.assign(pos(num_slots_), -1);
  place_in_repeated_.assign(pos(problem_.num_with_copies()), -1);
  taken_bits_.assign(pos((num_slots_ + 63) / 64), 0);
  taken_.clear();
  repeated_.clear();
  executions_.assign(problem_.num_with_copies(), num_slots_);
  writes_.assign(problem_.num_values(), num_slots_);
  readers_.assign(problem_.num_values(), num_slots_);
  absent_.assign(pos(problem_.num_values()), {});
  memory_ = MemoryProfile(num_slots_, most_units_);
  overwritten_.assign(pos(num_slots_), 0);
  has_absences_ = false;
  cost_ = 0;
  for (int value = 0; value < problem_.num_values(); ++value) {
    if (problem_.at_end[pos(value)] != 0) readers_.insert(value, num_slots_ - 1);
    if (problem_.producer[pos(value)] >= 0) continue;
    writes_.insert(value, 0);
    memory_.add(0, problem_.at_end[pos(value)] != 0 ? num_slots_ - 1 : 0, units_[pos(value)]);
  }
  std::vector<int> slots;
  const auto count = static_cast<std::int64_t>(order.size());
  for (std::int64_t i = 0; i < count; ++i) {
    slots.push_back(static_cast<int>(1 + ((2 * i + 1) * (num_slots_ - 2)) / (2 * count)));
    do_insert(order[static_cast<std::size_t>(i)], slots.back());
  }
  assign_absences(slots, absences);
  peak();
  commit();
}

void Sequence::assign_absences(std::span<const int> slots, std::span<const Absence> absences) {
  has_absences_ = !absences.empty();
  const int count = static_cast<int>(slots.size());
  for (const Absence& absence : absences) {
    const int first = absence.first == 0 ? 1 : slots[pos(absence.first - 1)] + 1;
    const int last = (absence.last + 1 < count ? slots[pos(absence.last + 1)] : num_slots_ - 1) - 1;
    absent_[pos(absence.value)].push_back({absence.value, first, last});
    memory_.add(first, last, -units_[pos(absence.value)]);
  }
  for (const int slot : slots) count_overwritten(slot);
}

std::vector<Absence> Sequence::absences() const {
  std::vector<Absence> all;
  if (!has_absences_) return all;
  std::vector<int> taken = taken_;
  std::sort(taken.begin(), taken.end());
  const auto below = [&](int slot) { return static_cast<int>(std::ranges::lower_bound(taken, slot) - taken.begin()); };
  for (const std::vector<Absence>& list : absent_) {
    for (const Absence& absence : list) {
      const int first = below(absence.first), last = below(absence.last + 1) - 1;
      if (first <= last) all.push_back({absence.value, first, last});
    }
  }
  return all;
}

/// An absence holds while the copy is written as it was and read after it, and not within.
bool Sequence::breaks_absence(int operation, int slot, bool inserted) const {
  for (const int output : problem_.outputs_of(operation)) {
    if (!absent_[pos(output)].empty()) return true;
  }
  for (const int input : problem_.inputs_of(operation)) {
    for (const Absence& absence : absent_[pos(input)]) {
      if (inserted) {
        if (absence.first <= slot && slot <= absence.last) return true;
      } else if (last_reader(input, absence.last, writes_.around(input, absence.last).after) == absence.last) {
        return true;
      }
    }
  }
  return false;
}

std::vector<int> Sequence::order() const {
  std::vector<int> operations;
  order(operations);
  return operations;
}

void Sequence::order(std::vector<int>& operations) const {
  operations.clear();
  operations.reserve(taken_.size());
  for (std::size_t word = 0; word < taken_bits_.size(); ++word) {
    for (std::uint64_t bits = taken_bits_[word]; bits != 0; bits &= bits - 1) {
      operations.push_back(slot_operation_[64 * word + static_cast<std::size_t>(std::countr_zero(bits))]);
    }
  }
}

void Sequence::insert(int operation, int slot) {
  do_insert(operation, slot);
  journal_.push_back({operation, slot, true});
}

void Sequence::insert_deferred(int operation, int slot) {
  // What is written over is found where the execution is in the lists.
  if (problem_.has_overwrites()) return insert(operation, slot);
  count_insertion(operation, slot);
  deferred_ = {operation, -1, slot};
}

void Sequence::shift_deferred(int operation, int from, int to) {
  if (problem_.has_overwrites() || has_absences_) {
    insert(operation, to);
    return remove(operation, from);
  }
  count_insertion(operation, to);
  change_of_removal(operation, from, to);
  cost_ -= problem_.seconds_again[pos(operation)];
  deferred_ = {operation, from, to};
}

void Sequence::remove(int operation, int slot) {
  do_remove(operation, slot);
  journal_.push_back({operation, slot, false});
}

bool Sequence::is_removable(int operation, int slot) const {
  if (problem_.is_copy(operation)) return true;
  const std::span<const int> list = executions_[operation];
  if (list.size() < 2) return false;
  if (list.front() != slot) return true;
  for (const int output : problem_.outputs_of(operation)) {
    if (last_reader(output, slot, list[1]) != slot) return false;
  }
  return true;
}

bool Sequence::is_unread(int operation, int slot) const {
  const std::span<const int> outputs = problem_.outputs_of(operation);
  return std::all_of(outputs.begin(), outputs.end(), [&](int output) {
    return last_reader(output, slot, writes_.around(output, slot + 1).after) == slot;
  });
}

void Sequence::commit() {
  link_deferred();
  committed_cost_ = cost_;
  forget_changes();
}

void Sequence::forget_changes() {
  journal_.clear();
  overwritten_before_.clear();
  memory_.commit();
}

void Sequence::undo_all() {
  deferred_ = {};
  for (std::size_t i = journal_.size(); i-- > 0;) {
    if (journal_[i].inserted) {
      unlink(journal_[i].operation, journal_[i].slot);
    } else {
      link(journal_[i].operation, journal_[i].slot);
    }
  }
  for (std::size_t i = overwritten_before_.size(); i-- > 0;) {
    overwritten_[pos(overwritten_before_[i].first)] = overwritten_before_[i].second;
  }
  memory_.undo();
  broken_ = false;
  cost_ = committed_cost_;
  forget_changes();
}

void Sequence::link_both() {
  const auto [operation, from, to] = std::exchange(deferred_, {});
  link(operation, to);
  journal_.push_back({operation, to, true});
  if (from < 0) return;
  unlink(operation, from);
  journal_.push_back({operation, from, false});
}

std::int64_t Sequence::peak() {
  link_deferred();
  return unit_ * memory_.peak();
}

/// What the execution in a slot saves. REQUIRES: there is one.
std::int64_t Sequence::overwritten(int slot) {
  chosen_.clear();
  std::int64_t units = 0;
  for (const Overwrite& pair : problem_.overwrites_of(operation_at(slot))) {
    const bool is_taken = std::ranges::any_of(
        chosen_, [&](const Overwrite& other) { return other.input == pair.input || other.output == pair.output; });
    const int out = problem_.copy_out_of(pair.input);
    const bool is_offloaded = !absent_[pos(pair.input)].empty() || (out >= 0 && executions_.size(out) > 0);
    if (is_taken || is_offloaded || lives_until(pair.input, slot) != slot) continue;
    chosen_.push_back(pair);
    units += units_[pos(pair.output)];
  }
  return units;
}

void Sequence::count_overwritten(int slot) {
  const int operation = operation_at(slot);
  std::int64_t& counted = overwritten_[pos(slot)];
  const bool may = operation >= 0 && !problem_.overwrites_of(operation).empty();
  const std::int64_t units = may ? overwritten(slot) : 0;
  if (units == counted) return;
  memory_.add(slot, slot, counted - units);
  overwritten_before_.emplace_back(slot, counted);
  counted = units;
}

/// Where an execution in the slot has come or gone: there, and where copies end or ended because of it.
void Sequence::count_all_overwritten(int operation, int slot) {
  if (!problem_.has_overwrites()) return;
  if (problem_.is_copy(operation) && !problem_.is_copy_in(operation)) {
    for (const int reader : readers_[problem_.copied_by(operation)]) count_overwritten(reader);
  }
  count_overwritten(slot);
  for (const int last : last_readers_) count_overwritten(last);
}

/// What an execution that is not (or no longer) in the lists adds to the memory, times `sign`.
void Sequence::change(int operation, int slot, std::int64_t sign) {
  const bool has_overwrites = problem_.has_overwrites();
  last_readers_.clear();
  for (const int input : problem_.inputs_of(operation)) {
    const SlotLists::Around around = writes_.around(input, slot);
    const int end = last_reader(input, around.before, around.after);
    if (has_overwrites) last_readers_.push_back(end);
    memory_.add(end + 1, slot, sign * units_[pos(input)]);
  }
  for (const int output : problem_.outputs_of(operation)) {
    const SlotLists::Around around = writes_.around(output, slot);
    if (has_overwrites && around.before >= 0) last_readers_.push_back(last_reader(output, around.before, slot));
    change_of_output(output, slot, around, sign);
  }
  memory_.add(slot, slot, sign * workspaces_[pos(operation)]);
}

/// `around`: where it is written besides.
void Sequence::change_of_output(int output, int slot, SlotLists::Around around, std::int64_t sign) {
  const std::int64_t units = sign * units_[pos(output)];
  const int end = last_reader(output, slot, around.after);
  if (end == slot) {
    memory_.add(slot, slot, units);
  } else if (around.before >= 0) {
    // The readers from here on are served by this execution: the copy before ends with its last reader before here.
    memory_.add(last_reader(output, around.before, slot) + 1, slot - 1, -units);
  } else {
    memory_.add(slot, end, units);
  }
}

/// What is no longer there where an execution leaves `from`, though the lists still have it there and not yet in `to`.
void Sequence::change_of_removal(int operation, int from, int to) {
  for (const int input : problem_.inputs_of(operation)) {
    const SlotLists::Around around = writes_.around(input, from);
    const int other = readers_.last_below_but(input, around.after, from);
    memory_.add(std::max({around.before, other, to < around.after ? to : -1}) + 1, from, -units_[pos(input)]);
  }
  for (const int output : problem_.outputs_of(operation)) {
    SlotLists::Around around = writes_.around_own(output, from);
    if (to < from) {
      around.before = std::max(around.before, to);
    } else {
      around.after = std::min(around.after, to);
    }
    change_of_output(output, from, around, -1);
  }
  memory_.add(from, from, -workspaces_[pos(operation)]);
}

void Sequence::count_insertion(int operation, int slot) {
  change(operation, slot, 1);
  broken_ = broken_ || (has_absences_ && breaks_absence(operation, slot, true));
  cost_ += (executions_.size(operation) > 0 ? problem_.seconds_again : problem_.seconds)[pos(operation)];
}

void Sequence::do_insert(int operation, int slot) {
  count_insertion(operation, slot);
  link(operation, slot);
  count_all_overwritten(operation, slot);
}

void Sequence::do_remove(int operation, int slot) {
  unlink(operation, slot);
  change(operation, slot, -1);
  count_all_overwritten(operation, slot);
  broken_ = broken_ || (has_absences_ && breaks_absence(operation, slot, false));
  cost_ -= (executions_.size(operation) > 0 ? problem_.seconds_again : problem_.seconds)[pos(operation)];
}

void Sequence::link(int operation, int slot) {
  executions_.insert(operation, slot);
  if (executions_.size(operation) == 2) {
    place_in_repeated_[pos(operation)] = static_cast<int>(repeated_.size());
    repeated_.push_back(operation);
  }
  for (const int input : problem_.inputs_of(operation)) readers_.insert(input, slot);
  for (const int output : problem_.outputs_of(operation)) writes_.insert(output, slot);
  slot_operation_[pos(slot)] = operation;
  place_in_taken_[pos(slot)] = static_cast<int>(taken_.size());
  taken_.push_back(slot);
  taken_bits_[pos(slot) / 64] |= std::uint64_t{1} << (slot % 64);
}

void Sequence::unlink(int operation, int slot) {
  executions_.erase(operation, slot);
  if (executions_.size(operation) == 1) {
    const int place = place_in_repeated_[pos(operation)];
    repeated_[pos(place)] = repeated_.back();
    place_in_repeated_[pos(repeated_.back())] = place;
    repeated_.pop_back();
  }
  for (const int input : problem_.inputs_of(operation)) readers_.erase(input, slot);
  for (const int output : problem_.outputs_of(operation)) writes_.erase(output, slot);
  slot_operation_[pos(slot)] = -1;
  const int place = place_in_taken_[pos(slot)];
  taken_[pos(place)] = taken_.back();
  place_in_taken_[pos(taken_.back())] = place;
  taken_.pop_back();
  taken_bits_[pos(slot) / 64] &= ~(std::uint64_t{1} << (slot % 64));
}

}  // namespace sectionflow::planning

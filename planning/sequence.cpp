#include "planning/sequence.h"

#include <algorithm>
#include <bit>

namespace sectionflow::planning {
namespace {

void insert_sorted(std::vector<int>& list, int slot) {
  list.push_back(slot);
  std::size_t i = list.size() - 1;
  for (; i > 0 && list[i - 1] > slot; --i) list[i] = list[i - 1];
  list[i] = slot;
}

void erase_sorted(std::vector<int>& list, int slot) {
  std::size_t i = list.size() - 1;
  int later = list[i];
  while (later != slot) {
    --i;
    std::swap(later, list[i]);
  }
  list.pop_back();
}

/// The number of entries below `slot`. Lists are short: counted from their end up to a few, else halved.
std::size_t count_below(const std::vector<int>& list, int slot) {
  if (list.size() > 16) {
    return static_cast<std::size_t>(std::lower_bound(list.begin(), list.end(), slot) - list.begin());
  }
  std::size_t count = list.size();
  while (count > 0 && list[count - 1] >= slot) --count;
  return count;
}

}  // namespace

Sequence::Sequence(const FlatProblem& problem, std::span<const int> order, std::span<const Absence> absences)
    : problem_(problem) {
  assign(order, absences);
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
  executions_.assign(pos(problem_.num_with_copies()), {});
  writes_.assign(pos(problem_.num_values()), {});
  readers_.assign(pos(problem_.num_values()), {});
  absent_.assign(pos(problem_.num_values()), {});
  tree_ = PeakTree(num_slots_);
  overwritten_.assign(pos(num_slots_), 0);
  has_absences_ = false;
  cost_ = 0;
  for (int value = 0; value < problem_.num_values(); ++value) {
    if (problem_.at_end[pos(value)] != 0) readers_[pos(value)].push_back(num_slots_ - 1);
    if (problem_.producer[pos(value)] >= 0) continue;
    writes_[pos(value)].push_back(0);
    stretch(0, problem_.at_end[pos(value)] != 0 ? num_slots_ - 1 : 0, problem_.bytes[pos(value)]);
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
    stretch(first, last, -problem_.bytes[pos(absence.value)]);
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
      } else if (last_reader(input, absence.last, writes_around(input, absence.last).after) == absence.last) {
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

void Sequence::remove(int operation, int slot) {
  do_remove(operation, slot);
  journal_.push_back({operation, slot, false});
}

bool Sequence::is_removable(int operation, int slot) const {
  if (problem_.is_copy(operation)) return true;
  const std::vector<int>& list = executions_[pos(operation)];
  if (list.size() < 2) return false;
  if (list.front() != slot) return true;
  for (const int output : problem_.outputs_of(operation)) {
    if (last_reader(output, slot, list[1]) != slot) return false;
  }
  return true;
}

bool Sequence::is_unread(int operation, int slot) const {
  for (const int output : problem_.outputs_of(operation)) {
    const std::vector<int>& list = writes_[pos(output)];
    const std::size_t next = count_below(list, slot + 1);
    if (last_reader(output, slot, next < list.size() ? list[next] : num_slots_) != slot) return false;
  }
  return true;
}

void Sequence::commit() {
  committed_cost_ = cost_;
  journal_.clear();
  overwritten_before_.clear();
  applied_.clear();
}

void Sequence::undo() {
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
  for (const Stretch& change : applied_) tree_.add(change.first, change.last, -change.bytes);
  pending_.clear();
  broken_ = false;
  cost_ = committed_cost_;
  commit();
}

std::int64_t Sequence::peak() {
  for (const Stretch& change : pending_) tree_.add(change.first, change.last, change.bytes);
  applied_.insert(applied_.end(), pending_.begin(), pending_.end());
  pending_.clear();
  return tree_.peak();
}

int Sequence::taken_below(int slot) const {
  std::size_t word = pos(slot) / 64;
  std::uint64_t bits = taken_bits_[word] & ((std::uint64_t{1} << (slot % 64)) - 1);
  while (bits == 0 && word > 0) bits = taken_bits_[--word];
  return bits == 0 ? 0 : static_cast<int>(64 * word) + 63 - std::countl_zero(bits);
}

int Sequence::taken_above(int slot) const {
  std::size_t word = pos(slot) / 64;
  std::uint64_t bits = taken_bits_[word] & ~((std::uint64_t{2} << (slot % 64)) - 1);
  while (bits == 0 && word + 1 < taken_bits_.size()) bits = taken_bits_[++word];
  return bits == 0 ? num_slots_ - 1 : static_cast<int>(64 * word) + std::countr_zero(bits);
}

Sequence::Around Sequence::writes_around(int value, int slot) const {
  const std::vector<int>& list = writes_[pos(value)];
  const std::size_t below = count_below(list, slot);
  return {below > 0 ? list[below - 1] : -1, below < list.size() ? list[below] : num_slots_};
}

int Sequence::last_reader(int value, int after, int before) const {
  const std::vector<int>& list = readers_[pos(value)];
  const std::size_t below = count_below(list, before);
  return below > 0 && list[below - 1] > after ? list[below - 1] : after;
}

int Sequence::written_before(int value, int slot) const {
  return writes_around(value, slot).before;
}

int Sequence::used_before(int value, int slot) const {
  const int written = writes_around(value, slot).before;
  return written < 0 ? -1 : last_reader(value, written, slot);
}

int Sequence::next_reader(int value, int slot) const {
  const std::vector<int>& list = readers_[pos(value)];
  const std::size_t below = count_below(list, slot + 1);
  return below < list.size() ? list[below] : num_slots_;
}

int Sequence::lives_until(int value, int slot) const {
  const Around around = writes_around(value, slot);
  // An execution in the slot itself writes a new copy.
  return last_reader(value, around.before, around.after);
}

void Sequence::stretch(int first, int last, std::int64_t bytes) {
  if (first <= last && bytes != 0) pending_.push_back({first, last, bytes});
}

/// What the execution in a slot saves. REQUIRES: there is one.
std::int64_t Sequence::overwritten(int slot) {
  chosen_.clear();
  std::int64_t bytes = 0;
  for (const Overwrite& pair : problem_.overwrites_of(operation_at(slot))) {
    const bool is_taken = std::ranges::any_of(
        chosen_, [&](const Overwrite& other) { return other.input == pair.input || other.output == pair.output; });
    const int out = problem_.copy_out_of(pair.input);
    const bool is_offloaded = !absent_[pos(pair.input)].empty() || (out >= 0 && !executions_[pos(out)].empty());
    if (is_taken || is_offloaded || lives_until(pair.input, slot) != slot) continue;
    chosen_.push_back(pair);
    bytes += problem_.bytes[pos(pair.output)];
  }
  return bytes;
}

void Sequence::count_overwritten(int slot) {
  const int operation = operation_at(slot);
  std::int64_t& counted = overwritten_[pos(slot)];
  const bool may = operation >= 0 && !problem_.overwrites_of(operation).empty();
  const std::int64_t bytes = may ? overwritten(slot) : 0;
  if (bytes == counted) return;
  stretch(slot, slot, counted - bytes);
  overwritten_before_.emplace_back(slot, counted);
  counted = bytes;
}

/// Where an execution in the slot has come or gone: there, and where copies end or ended because of it.
void Sequence::count_all_overwritten(int operation, int slot) {
  if (!problem_.has_overwrites()) return;
  if (problem_.is_copy(operation) && !problem_.is_copy_in(operation)) {
    const std::vector<int>& list = readers_[pos(problem_.copied_by(operation))];
    for (const int reader : list) count_overwritten(reader);
  }
  count_overwritten(slot);
  for (const int last : last_readers_) count_overwritten(last);
}

/// What an execution that is not (or no longer) in the lists adds to the memory, times `sign`.
void Sequence::change(int operation, int slot, std::int64_t sign) {
  last_readers_.clear();
  for (const int input : problem_.inputs_of(operation)) {
    const Around around = writes_around(input, slot);
    const int end = last_reader(input, around.before, around.after);
    last_readers_.push_back(end);
    stretch(end + 1, slot, sign * problem_.bytes[pos(input)]);
  }
  for (const int output : problem_.outputs_of(operation)) {
    const std::int64_t bytes = sign * problem_.bytes[pos(output)];
    const Around around = writes_around(output, slot);
    if (around.before >= 0) last_readers_.push_back(last_reader(output, around.before, slot));
    if (last_reader(output, slot, around.after) == slot) {
      stretch(slot, slot, bytes);
    } else if (around.before >= 0) {
      // The readers from here on are served by this execution: the copy before ends with its last reader before here.
      stretch(last_reader(output, around.before, slot) + 1, slot - 1, -bytes);
    } else {
      stretch(slot, last_reader(output, slot, around.after), bytes);
    }
  }
  stretch(slot, slot, sign * problem_.workspace[pos(operation)]);
}

void Sequence::do_insert(int operation, int slot) {
  const bool again = !executions(operation).empty();
  change(operation, slot, 1);
  link(operation, slot);
  count_all_overwritten(operation, slot);
  broken_ = broken_ || (has_absences_ && breaks_absence(operation, slot, true));
  cost_ += (again ? problem_.seconds_again : problem_.seconds)[pos(operation)];
}

void Sequence::do_remove(int operation, int slot) {
  unlink(operation, slot);
  change(operation, slot, -1);
  count_all_overwritten(operation, slot);
  broken_ = broken_ || (has_absences_ && breaks_absence(operation, slot, false));
  const bool again = !executions(operation).empty();
  cost_ -= (again ? problem_.seconds_again : problem_.seconds)[pos(operation)];
}

void Sequence::link(int operation, int slot) {
  std::vector<int>& list = executions_[pos(operation)];
  insert_sorted(list, slot);
  if (list.size() == 2) {
    place_in_repeated_[pos(operation)] = static_cast<int>(repeated_.size());
    repeated_.push_back(operation);
  }
  for (const int input : problem_.inputs_of(operation)) insert_sorted(readers_[pos(input)], slot);
  for (const int output : problem_.outputs_of(operation)) insert_sorted(writes_[pos(output)], slot);
  slot_operation_[pos(slot)] = operation;
  place_in_taken_[pos(slot)] = static_cast<int>(taken_.size());
  taken_.push_back(slot);
  taken_bits_[pos(slot) / 64] |= std::uint64_t{1} << (slot % 64);
}

void Sequence::unlink(int operation, int slot) {
  std::vector<int>& list = executions_[pos(operation)];
  erase_sorted(list, slot);
  if (list.size() == 1) {
    const int place = place_in_repeated_[pos(operation)];
    repeated_[pos(place)] = repeated_.back();
    place_in_repeated_[pos(repeated_.back())] = place;
    repeated_.pop_back();
  }
  for (const int input : problem_.inputs_of(operation)) erase_sorted(readers_[pos(input)], slot);
  for (const int output : problem_.outputs_of(operation)) erase_sorted(writes_[pos(output)], slot);
  slot_operation_[pos(slot)] = -1;
  const int place = place_in_taken_[pos(slot)];
  taken_[pos(place)] = taken_.back();
  place_in_taken_[pos(taken_.back())] = place;
  taken_.pop_back();
  taken_bits_[pos(slot) / 64] &= ~(std::uint64_t{1} << (slot % 64));
}

}  // namespace sectionflow::planning

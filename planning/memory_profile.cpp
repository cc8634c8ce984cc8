#include "planning/memory_profile.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "planning/flat_problem.h"

namespace sectionflow::planning {

MemoryProfile::MemoryProfile(int num_slots, std::int64_t most)
    : num_slots_(num_slots),
      // Sums of what is on its way to other slots stay within, too.
      is_narrow_(most < std::numeric_limits<std::int32_t>::max() / 4),
      narrow_(is_narrow_ ? num_slots : 1),
      wide_(is_narrow_ ? 1 : num_slots) {}

void MemoryProfile::apply(const Stretch& change, std::int64_t sign) {
  if (is_narrow_) {
    narrow_.add(change.first, change.last, static_cast<std::int32_t>(sign * change.units));
  } else {
    wide_.add(change.first, change.last, sign * change.units);
  }
}

/// What is pending as stretches that do not meet: much of it is the same slots, and often in sum nothing.
void MemoryProfile::join_pending() {
  pending_.insert(pending_.end(), joined_.begin(), joined_.end());
  joined_.clear();
  if (pending_.size() < 2) return joined_.swap(pending_);
  const std::size_t count = 2 * pending_.size();
  steps_.resize(count);
  joined_.resize(count);
  sort_steps();
  pending_.clear();
  std::int64_t units = 0;
  std::size_t joined = 0;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    units += steps_[i].units;
    joined_[joined] = {steps_[i].slot, steps_[i + 1].slot - 1, units};
    joined += static_cast<std::size_t>((units != 0) & (steps_[i].slot < steps_[i + 1].slot));
  }
  joined_.resize(joined);
}

/// Where the sum of what is pending changes and by how much, by slots.
void MemoryProfile::sort_steps() {
  if (2 * pending_.size() <= 16) return sort_few_steps<16>();
  if (2 * pending_.size() <= 32) return sort_few_steps<32>();
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    steps_[2 * i] = {pending_[i].first, pending_[i].units};
    steps_[2 * i + 1] = {pending_[i].last + 1, -pending_[i].units};
  }
  std::ranges::sort(steps_, {}, &Step::slot);
}

/// Counts each to its place, with no branch that could be guessed wrong.
template <int kMost>
void MemoryProfile::sort_few_steps() {
  std::array<int, kMost> slots;
  slots.fill(num_slots_);
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    slots[2 * i] = pending_[i].first;
    slots[2 * i + 1] = pending_[i].last + 1;
  }
  const auto place = [&](int slot, int index) {
    int before = 0;
#pragma omp simd reduction(+ : before)
    for (int j = 0; j < kMost; ++j) {
      const int other = slots[pos(j)];
      before += other < slot || (other == slot && j < index) ? 1 : 0;
    }
    return pos(before);
  };
  for (int i = 0; i < static_cast<int>(pending_.size()); ++i) {
    const auto& [first, last, units] = pending_[pos(i)];
    steps_[place(first, 2 * i)] = {first, units};
    steps_[place(last + 1, 2 * i + 1)] = {last + 1, -units};
  }
}

std::int64_t MemoryProfile::least_peak() {
  join_pending();
  std::int64_t most = 0;
  for (const Stretch& change : joined_) {
    if (change.units <= 0) continue;
    const std::int64_t here =
        is_narrow_ ? narrow_.most(change.first, change.last) : wide_.most(change.first, change.last);
    most = std::max(most, here + change.units);
  }
  return most;
}

std::int64_t MemoryProfile::peak() {
  if (!pending_.empty()) join_pending();
  for (const Stretch& change : joined_) apply(change, 1);
  applied_.insert(applied_.end(), joined_.begin(), joined_.end());
  joined_.clear();
  return std::as_const(*this).peak();
}

void MemoryProfile::undo() {
  for (const Stretch& change : applied_) apply(change, -1);
  applied_.clear();
  pending_.clear();
  joined_.clear();
}

}  // namespace sectionflow::planning

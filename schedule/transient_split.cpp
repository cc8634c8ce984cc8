#include "schedule/transient_split.h"

#include <algorithm>
#include <vector>

#include "base/bytes.h"

namespace sectionflow {
namespace {

/// Which run each step belongs to.
std::vector<int> runs_of(const Schedule& schedule) {
  std::vector<int> runs;
  int run = -1;
  GroupId section = kNoGroup;
  for (const Step& step : schedule.steps) {
    const GroupId own = schedule.passes[static_cast<std::size_t>(step.pass)].section;
    if (run < 0 || own != section) ++run;
    section = own;
    runs.push_back(run);
  }
  return runs;
}

/// Sums of live bytes, from what begins and ends at each step.
class LiveBytes {
 public:
  explicit LiveBytes(std::size_t num_steps) : change_(num_steps + 1, 0) {}
  void add(const Life& life, std::size_t bytes) {
    change_[static_cast<std::size_t>(life.first)] += static_cast<std::int64_t>(bytes);
    change_[static_cast<std::size_t>(life.last) + 1] -= static_cast<std::int64_t>(bytes);
  }
  std::size_t largest() const {
    std::int64_t live = 0, largest = 0;
    for (std::int64_t change : change_) largest = std::max(largest, live += change);
    return static_cast<std::size_t>(largest);
  }

 private:
  std::vector<std::int64_t> change_;
};

}  // namespace

TransientSplit split_transient(const Schedule& schedule, const StorageAssignment& storage) {
  const std::vector<int> runs = runs_of(schedule);
  LiveBytes border(runs.size()), own(runs.size());
  if (runs.empty()) return {};
  for (const Storage& s : storage.storages) {
    if (s.tier != Tier::device) continue;
    const bool crosses = runs[static_cast<std::size_t>(s.life.first)] != runs[static_cast<std::size_t>(s.life.last)];
    (crosses ? border : own).add(s.life, round_up(s.bytes));
  }
  return {border.largest(), own.largest()};
}

}  // namespace sectionflow

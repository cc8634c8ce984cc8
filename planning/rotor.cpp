#include "planning/rotor.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "planning/problem.h"

namespace sectionflow::planning {
namespace {

using Kind = ChainStep::Kind;

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::size_t kMostEntries = std::size_t{1} << 28;

void check_sizes(const char* what, const std::vector<std::int64_t>& sizes, std::size_t wanted) {
  SF_CHECK(sizes.size() == wanted, ArgumentError, "plan_chain: ", sizes.size(), " ", what, ", wanted ", wanted);
  for (const std::int64_t bytes : sizes) {
    SF_CHECK(bytes >= 0 && bytes <= kMostProblemBytes, ArgumentError, "plan_chain: one of ", what, " is ", bytes,
             ", wanted 0 to 2^53");
  }
}

void check_times(const char* what, const std::vector<double>& times, std::size_t wanted) {
  SF_CHECK(times.size() == wanted, ArgumentError, "plan_chain: ", times.size(), " ", what, ", wanted ", wanted);
  for (const double seconds : times) {
    SF_CHECK(std::isfinite(seconds) && seconds >= 0, ArgumentError, "plan_chain: one of ", what, " is ", seconds,
             ", wanted a number of at least 0");
  }
}

/// The chain in slots, with the loss as one more stage that takes nothing.
struct SlotChain {
  int last = 0;  // the loss
  std::vector<double> forward, backward, forward_until;
  std::vector<std::int64_t> x, saved, forward_work, backward_work;
};

SlotChain in_slots(const Chain& chain, std::int64_t bytes_of_slot) {
  const auto slots = [&](const std::vector<std::int64_t>& bytes, std::size_t size) {
    std::vector<std::int64_t> rounded;
    for (const std::int64_t one : bytes) rounded.push_back((one + bytes_of_slot - 1) / bytes_of_slot);
    rounded.resize(size, 0);
    return rounded;
  };
  const std::size_t stages = chain.forward_seconds.size();
  SlotChain in{static_cast<int>(stages),
               chain.forward_seconds,
               chain.backward_seconds,
               {0},
               slots(chain.input_bytes, stages + 2),
               slots(chain.saved_bytes, stages + 2),
               slots(chain.forward_workspace, stages + 1),
               slots(chain.backward_workspace, stages + 1)};
  in.forward.push_back(0);
  in.backward.push_back(0);
  for (const double seconds : in.forward) in.forward_until.push_back(in.forward_until.back() + seconds);
  return in;
}

/// Entry (i, l, m): the least time from x_i, which is not counted, to the backward of i ... l in m slots, of which the
/// gradient of x_l+1 takes some from the beginning; and the way there.
class ChainTable {
 public:
  ChainTable(const SlotChain& chain, std::int64_t slots) : chain_(chain), slots_(slots) {
    const auto stages = static_cast<std::size_t>(chain.last) + 1;
    SF_CHECK(stages <= 30'000 && stages * stages <= kMostEntries / static_cast<std::size_t>(slots + 1), ArgumentError,
             "plan_chain: ", stages, " stages in ", slots, " slots", hint("ask for fewer slots, or join stages"));
    seconds_.assign(stages * stages * static_cast<std::size_t>(slots + 1), kNever);
    choice_.assign(seconds_.size(), kNone);
    for (int length = 0; length <= chain.last; ++length) {
      for (int first = 0; first + length <= chain.last; ++first) fill(first, first + length);
    }
  }
  double seconds(int first, int last, std::int64_t slots) const { return seconds_[index(first, last, slots)]; }

  /// Appends the steps of an entry that has a way. The depth of calls is that of stages at most.
  void replay(int first, int last, std::int64_t slots, std::vector<ChainStep>& steps) const {
    const int choice = choice_[index(first, last, slots)];
    if (choice == kAll) {
      if (first == chain_.last) {
        steps.push_back({Kind::loss, first});
        return;
      }
      steps.push_back({Kind::forward_all, first});
      if (first < last) replay(first + 1, last, slots - saved(first), steps);
      steps.push_back({Kind::backward, first});
      return;
    }
    steps.push_back({Kind::forward_keep, first});
    for (int stage = first + 1; stage < choice; ++stage) steps.push_back({Kind::forward, stage});
    replay(choice, last, slots - x(choice), steps);
    replay(first, choice - 1, slots, steps);
  }

 private:
  static constexpr int kNone = -1, kAll = 0;  // another choice is the stage whose input is kept next, at least 1

  std::size_t index(int first, int last, std::int64_t slots) const {
    const auto stages = static_cast<std::size_t>(chain_.last) + 1;
    return (static_cast<std::size_t>(first) * stages + static_cast<std::size_t>(last)) *
               static_cast<std::size_t>(slots_ + 1) +
           static_cast<std::size_t>(slots);
  }
  static std::int64_t of(const std::vector<std::int64_t>& list, int i) { return list[static_cast<std::size_t>(i)]; }
  static double of(const std::vector<double>& list, int i) { return list[static_cast<std::size_t>(i)]; }
  std::int64_t x(int i) const { return of(chain_.x, i); }
  std::int64_t saved(int stage) const { return of(chain_.saved, stage + 1); }

  void improve(int first, int last, std::int64_t slots, double seconds, int choice) {
    const std::size_t entry = index(first, last, slots);
    if (seconds >= seconds_[entry]) return;
    seconds_[entry] = seconds;
    choice_[entry] = choice;
  }

  void fill(int first, int last) {
    const std::int64_t gradient = x(last + 1);
    // Everything of the first stage is kept: its forward with the gradient of the last, its backward with its own.
    const std::int64_t forward = gradient + saved(first) + of(chain_.forward_work, first);
    const std::int64_t backward = x(first) + x(first + 1) + saved(first) + of(chain_.backward_work, first);
    const double both = of(chain_.forward, first) + of(chain_.backward, first);
    for (std::int64_t m = std::max({forward, backward, saved(first)}); m <= slots_; ++m) {
      const double others = first == last ? 0 : seconds(first + 1, last, m - saved(first));
      improve(first, last, m, both + others, kAll);
    }
    // Or a later input is kept next: every forward until there, of which all but the first also hold their input.
    std::int64_t most = gradient + x(first + 1) + of(chain_.forward_work, first);
    for (int next = first + 1; next <= last; ++next) {
      if (next > first + 1) most = std::max(most, gradient + x(next - 1) + x(next) + of(chain_.forward_work, next - 1));
      const double until = of(chain_.forward_until, next) - of(chain_.forward_until, first);
      for (std::int64_t m = std::max(most, x(next)); m <= slots_; ++m) {
        improve(first, last, m, until + seconds(next, last, m - x(next)) + seconds(first, next - 1, m), next);
      }
    }
  }

  const SlotChain& chain_;
  const std::int64_t slots_;
  std::vector<double> seconds_;
  std::vector<int> choice_;
};

}  // namespace

std::optional<ChainPlan> plan_chain(const Chain& chain, std::int64_t budget, int slots) {
  const std::size_t stages = chain.forward_seconds.size();
  check_times("forward_seconds", chain.forward_seconds, stages);
  check_times("backward_seconds", chain.backward_seconds, stages);
  check_sizes("input_bytes", chain.input_bytes, stages + 1);
  check_sizes("saved_bytes", chain.saved_bytes, stages + 1);
  if (!chain.forward_workspace.empty()) check_sizes("forward_workspace", chain.forward_workspace, stages);
  if (!chain.backward_workspace.empty()) check_sizes("backward_workspace", chain.backward_workspace, stages);
  SF_CHECK(budget >= 0 && slots > 0, ArgumentError, "plan_chain: a budget of ", budget, " bytes in ", slots,
           " slots, wanted at least 0 and at least 1");
  const std::int64_t bytes_of_slot = std::max<std::int64_t>(1, budget / slots + (budget % slots != 0));
  const SlotChain rounded = in_slots(chain, bytes_of_slot);
  const std::int64_t left = budget / bytes_of_slot - rounded.x[0];
  if (left < 0) return std::nullopt;
  const ChainTable table(rounded, left);
  const double seconds = table.seconds(0, rounded.last, left);
  if (seconds == kNever) return std::nullopt;
  ChainPlan plan{seconds, {}};
  table.replay(0, rounded.last, left, plan.steps);
  return plan;
}

}  // namespace sectionflow::planning

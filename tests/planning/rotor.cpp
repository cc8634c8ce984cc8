#include "planning/rotor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <random>
#include <tuple>

#include "base/error.h"

namespace sectionflow::planning {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
using Kind = ChainStep::Kind;

struct Known {
  std::int64_t budget;
  std::size_t steps;  // 0: there is no plan
  double seconds;
};

void expect_known(const Chain& chain, const std::vector<Known>& known) {
  for (const Known& one : known) {
    const auto plan = plan_chain(chain, one.budget);
    ASSERT_EQ(plan.has_value(), one.steps > 0) << "budget " << one.budget;
    if (!plan) continue;
    EXPECT_EQ(plan->steps.size(), one.steps) << "budget " << one.budget;
    EXPECT_EQ(plan->seconds, one.seconds) << "budget " << one.budget;
  }
}

Chain equal_stages() {
  Chain chain;
  chain.forward_seconds.assign(10, 1);
  chain.backward_seconds.assign(10, 2);
  chain.input_bytes.assign(11, 1);
  chain.saved_bytes.assign(11, 3);
  return chain;
}

// What the authors' own program gives for their own chains: the numbers of steps and the times.
TEST(PlanChain, KnownPlansOfEqualStages) {
  expect_known(equal_stages(), {{6, 0, 0}, {7, 66, 75}, {8, 41, 50}, {9, 36, 45}, {15, 28, 37}});
}

TEST(PlanChain, KnownPlansOfUnequalStages) {
  const Chain chain{{1, 5, 3, 9, 2, 10, 8, 6, 4, 7},   std::vector<double>(10, 2),
                    {1, 2, 1, 1, 2, 3, 2, 3, 2, 1, 1}, {1, 5, 3, 1, 2, 4, 5, 6, 3, 2, 1},
                    {1, 2, 3, 4, 5, 4, 3, 2, 1, 0},    {5, 4, 3, 2, 1, 2, 1, 3, 5, 4}};
  expect_known(chain, {{15, 0, 0}, {16, 43, 178}, {17, 35, 147}, {20, 28, 113}, {26, 25, 93}, {40, 21, 75}});
}

TEST(PlanChain, KnownPlansWhereAStageTakesNothing) {
  Chain chain = equal_stages();
  chain.input_bytes[5] = chain.saved_bytes[5] = 0;
  expect_known(chain, {{6, 0, 0}, {7, 42, 51}});
}

/// What every order of execution within the budget that keeps what it has kept takes at least: by Dijkstra over what is
/// kept, where the walk stands, and which backward comes next.
class AllOrders {
 public:
  AllOrders(const Chain& chain, std::int64_t budget) : chain_(chain), budget_(budget) {}

  double least_seconds() {
    const int stages = static_cast<int>(chain_.forward_seconds.size());
    reach({stages, 1U, 0U, 0, false}, 0);
    while (!open_.empty()) {
      const auto [seconds, state] = open_.top();
      open_.pop();
      if (best_.at(state) < seconds) continue;
      if (state.next < 0) return seconds;
      expand(state, seconds);
    }
    return kNever;
  }

 private:
  /// Backward `next` comes next; x_i of bits `kept` and all of stages of bits `saved` stay; the walk has x_at.
  struct State {
    int next;
    unsigned kept, saved;
    int at;
    bool loose;  // x_at is kept nowhere
    auto operator<=>(const State&) const = default;
  };
  static std::int64_t of(const std::vector<std::int64_t>& list, int i) {
    return static_cast<std::size_t>(i) < list.size() ? list[static_cast<std::size_t>(i)] : 0;
  }
  static double of(const std::vector<double>& list, int i) {
    return static_cast<std::size_t>(i) < list.size() ? list[static_cast<std::size_t>(i)] : 0;
  }
  std::int64_t x(int i) const { return of(chain_.input_bytes, i); }
  /// Bytes of what stays, and the gradient.
  std::int64_t base(const State& state) const {
    std::int64_t bytes = x(state.next + 1);
    for (int i = 0; i < 30; ++i) {
      if ((state.kept >> i & 1U) != 0) bytes += x(i);
      if ((state.saved >> i & 1U) != 0) bytes += of(chain_.saved_bytes, i + 1);
    }
    return bytes;
  }
  void reach(const State& state, double seconds) {
    const auto [entry, is_new] = best_.try_emplace(state, seconds);
    if (!is_new && entry->second <= seconds) return;
    entry->second = seconds;
    open_.push({seconds, state});
  }
  /// Whether x_i stays: by itself, or with what its producer keeps.
  static bool stays(const State& state, int i) {
    return (state.kept >> i & 1U) != 0 || (i > 0 && (state.saved >> (i - 1) & 1U) != 0);
  }

  void expand(const State& state, double seconds) {
    for (int i = 0; i <= state.next; ++i) {
      if (stays(state, i)) reach({state.next, state.kept, state.saved, i, false}, seconds);
    }
    const int i = state.at;
    const std::int64_t loose = state.loose ? x(i) : 0;
    if (state.loose) reach({state.next, state.kept | 1U << i, state.saved, i, false}, seconds);
    if (i < state.next && base(state) + loose + x(i + 1) + of(chain_.forward_workspace, i) <= budget_) {
      reach({state.next, state.kept, state.saved, i + 1, !stays(state, i + 1)},
            seconds + of(chain_.forward_seconds, i));
    }
    const std::int64_t all = of(chain_.saved_bytes, i + 1) * (i < static_cast<int>(chain_.forward_seconds.size()));
    if (!state.loose && i <= state.next && (state.saved >> i & 1U) == 0 &&
        base(state) + all + of(chain_.forward_workspace, i) <= budget_) {
      const bool has_next = i < state.next;
      reach({state.next, state.kept, state.saved | 1U << i, has_next ? i + 1 : i, false},
            seconds + of(chain_.forward_seconds, i));
    }
    const int last = state.next;
    if ((state.saved >> last & 1U) != 0 && !state.loose &&
        base(state) + x(last) + of(chain_.backward_workspace, last) <= budget_) {
      const unsigned without = ~(1U << last);
      reach({last - 1, state.kept & without, state.saved & without, 0, false},
            seconds + of(chain_.backward_seconds, last));
    }
  }

  const Chain& chain_;
  const std::int64_t budget_;
  std::map<State, double> best_;
  using Open = std::pair<double, State>;
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open_;
};

class RandomChains {
 public:
  explicit RandomChains(unsigned seed) : random_(seed) {}
  Chain next() {
    const auto stages = static_cast<std::size_t>(draw(1, 5));
    Chain chain;
    for (std::size_t i = 0; i < stages; ++i) {
      chain.forward_seconds.push_back(draw(0, 9));
      chain.backward_seconds.push_back(draw(0, 9));
      chain.forward_workspace.push_back(draw(0, 3));
      chain.backward_workspace.push_back(draw(0, 3));
    }
    for (std::size_t i = 0; i <= stages; ++i) {
      chain.input_bytes.push_back(draw(0, 4));
      chain.saved_bytes.push_back(chain.input_bytes.back() + draw(0, 6));
    }
    return chain;
  }
  int draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

 private:
  std::mt19937 random_;
};

TEST(PlanChain, IsTheBestOfAllOrdersThatKeepWhatTheyHaveKept) {
  const unsigned seed = 20240607;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  RandomChains chains(seed);
  int feasible = 0, repeating = 0;
  for (int i = 0; i < 1500; ++i) {
    const Chain chain = chains.next();
    const std::int64_t budget = chains.draw(4, 40);
    const double least = AllOrders(chain, budget).least_seconds();
    const auto plan = plan_chain(chain, budget);
    ASSERT_EQ(plan ? plan->seconds : kNever, least) << "chain " << i << ", budget " << budget;
    feasible += plan ? 1 : 0;
    repeating += plan && plan->steps.size() > 2 * chain.forward_seconds.size() + 1 ? 1 : 0;
  }
  EXPECT_GT(feasible, 500);
  EXPECT_GT(repeating, 100);
}

TEST(PlanChain, StepsTakeTheTimeThatIsSaid) {
  RandomChains chains(7);
  for (int i = 0; i < 300; ++i) {
    const Chain chain = chains.next();
    const auto plan = plan_chain(chain, 30);
    if (!plan) continue;
    double seconds = 0;
    int next = static_cast<int>(chain.forward_seconds.size());
    for (const ChainStep& step : plan->steps) {
      const auto stage = static_cast<std::size_t>(step.stage);
      if (step.kind == Kind::backward || step.kind == Kind::loss) {
        ASSERT_EQ(step.stage, next--) << "chain " << i;
        seconds += step.kind == Kind::backward ? chain.backward_seconds[stage] : 0;
      } else {
        seconds += chain.forward_seconds[stage];
      }
    }
    EXPECT_EQ(next, -1);
    EXPECT_EQ(seconds, plan->seconds) << "chain " << i;
  }
}

TEST(PlanChain, CoarserSlotsNeverPromiseMore) {
  const Chain chain = equal_stages();
  for (const std::int64_t budget : {9, 15, 21, 30}) {
    const auto exact = plan_chain(chain, budget), coarse = plan_chain(chain, budget, 6);
    ASSERT_TRUE(exact);
    EXPECT_GE(coarse ? coarse->seconds : kNever, exact->seconds) << budget;
  }
}

TEST(PlanChain, RefusesChainsThatAreNone) {
  const auto refused = [](auto change) {
    Chain chain = equal_stages();
    change(chain);
    EXPECT_THROW(plan_chain(chain, 20), ArgumentError);
  };
  refused([](Chain& chain) { chain.input_bytes.pop_back(); });
  refused([](Chain& chain) { chain.saved_bytes[3] = -1; });
  refused([](Chain& chain) { chain.forward_seconds[2] = kNever; });
  refused([](Chain& chain) { chain.backward_seconds.pop_back(); });
  refused([](Chain& chain) { chain.forward_workspace = {1}; });
  EXPECT_THROW(plan_chain(equal_stages(), -1), ArgumentError);
  EXPECT_THROW(plan_chain(equal_stages(), 20, 0), ArgumentError);
  EXPECT_EQ(plan_chain(Chain{{}, {}, {3}, {0}, {}, {}}, 6)->steps, (std::vector<ChainStep>{{Kind::loss, 0}}));
}

}  // namespace
}  // namespace sectionflow::planning

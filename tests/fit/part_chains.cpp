#include "fit/part_chains.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "fit/make_problem.h"
#include "planning/evaluate.h"
#include "planning/lower_bound.h"
#include "planning/search.h"
#include "schedule/check_schedule.h"
#include "schedule/idle_stretches.h"
#include "tests/fit/parts_case.h"

namespace sectionflow::testing {
namespace {

/// Hands the list of a case's training step, everything once, to `look`.
void with_list(const TrainingCase& training_case,
               const std::function<void(const InstructionList&, PlanningTools&)>& look) {
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainingNet net = training_case.build(graph, manager);
  Session session(graph, {.threads = 1});
  engine(session).set_instruction_editor("look", [&](InstructionList list, PlanningTools& tools) {
    look(without_repeats(list), tools);
    return list;
  });
  FeedStore store;
  session.plan({net.loss}, types_of(net.feeds(0, store)), {.targets = manager.training_operations()});
}

std::int64_t bytes_alive(PlanningTools& tools, const InstructionList& list) {
  return static_cast<std::int64_t>(tools.draft(list).plan.lower_bound_bytes);
}

TEST(PartChains, HoldAConcatenationItsReadersAndTheirGradients) {
  with_list(concatenation(), [](const InstructionList& list, PlanningTools& tools) {
    const PartChains chains(list, tools.draft(list), tools);
    EXPECT_EQ(chains.next_number(33), 64);
    EXPECT_EQ(chains.next_number(65), 0);
    std::set<std::string> ops;
    for (const NodeId node : chains.nodes()) ops.insert(tools.graph().graph().node(node).op().name);
    for (const char* op : {"concat", "silu", "mul", "softmax_cross_entropy", "softmax_cross_entropy_grad"})
      EXPECT_TRUE(ops.contains(op)) << op;
    const std::int64_t whole = bytes_alive(tools, list), in_two = bytes_alive(tools, chains.list_in(2)),
                       in_eight = bytes_alive(tools, chains.list_in(8));
    EXPECT_LT(in_two, whole * 7 / 8);
    EXPECT_LT(in_eight, in_two * 7 / 8);
    EXPECT_EQ(chains.list_in(3).instructions.size(), chains.list_in(2).instructions.size()) << "3 does not divide 64";
  });
}

TEST(PartChains, AreNoneOfListsThatAreNotPlain) {
  with_list(concatenation(), [](const InstructionList& list, PlanningTools& tools) {
    const auto has_none = [&](const InstructionList& other) {
      return PartChains(other, tools.draft(list), tools).empty();
    };
    EXPECT_FALSE(has_none(list));
    InstructionList halves = list, twice = list, copies = list;
    halves.half = 3;
    EXPECT_TRUE(has_none(halves));
    twice.instructions.insert(twice.instructions.begin() + 1, twice.instructions.front());
    EXPECT_TRUE(has_none(twice));
    copies.instructions.push_back({.kind = StepKind::copy_out, .fetched = {}, .offload = 0});
    EXPECT_TRUE(has_none(copies));
    EXPECT_TRUE(has_none(PartChains(list, tools.draft(list), tools).list_in(2)));
  });
}

/// Lists in parts of the concatenation and of chains drawn at random.
void with_lists_in_parts(const std::function<void(const InstructionList&, PlanningTools&)>& look) {
  int found = 0;
  for (std::uint64_t seed = 0; seed <= 20; ++seed) {
    const TrainingCase net = seed == 0 ? concatenation() : random_chain(seed);
    SCOPED_TRACE(net.name);
    with_list(net, [&](const InstructionList& list, PlanningTools& tools) {
      const PartChains chains(list, tools.draft(list), tools);
      if (chains.empty()) return;
      ++found;
      for (const int parts : {2, 4}) look(chains.list_in(parts), tools);
    });
  }
  EXPECT_GT(found, 10);
}

TEST(PartChains, AreOneOperationOfTheProblemThatTakesWhatTheirScheduleTakes) {
  int planned = 0;
  with_lists_in_parts([&](const InstructionList& list, PlanningTools& tools) {
    const Profile profile = Profile::nominal();
    StepTimes times(tools, profile);
    const Draft draft = tools.draft(list);
    const ListProblem problem = make_list_problem(list, draft, tools, times);
    std::vector<int> order(problem.problem().operations.size());
    std::iota(order.begin(), order.end(), 0);
    EXPECT_EQ(problem.list_of(order).instructions.size(), list.instructions.size());
    const std::vector<double> seconds = times.of(draft.schedule);
    EXPECT_NEAR(planning::default_cost(problem.problem()), std::accumulate(seconds.begin(), seconds.end(), 0.0), 1e-9);
    const std::int64_t peak = planning::default_peak(problem.problem()), live = bytes_alive(tools, list);
    // What a strip reads counts until its end, though some of it is dropped within the last parts.
    EXPECT_LE(peak, live + live / 4);
    EXPECT_GE(peak, live - live / 50 - 4096);
    const std::int64_t least = planning::largest_working_set(problem.problem()).bytes;
    const planning::SearchResult found =
        search_plan(problem.problem(), {.budget = least + (peak - least) / 2, .effort = 20'000});
    if (!found.plan) return;
    ++planned;
    const Draft again = tools.draft(problem.list_of(executions_of(*found.plan)));
    EXPECT_NO_THROW(check_schedule(again.schedule, tools.kernels(), again.storage, again.plan, tools.graph().graph(),
                                   tools.guard_bytes()));
    EXPECT_LE(static_cast<std::int64_t>(again.plan.lower_bound_bytes), found.evaluation.peak * 11 / 10);
  });
  EXPECT_GT(planned, 10);
}

TEST(PartChains, AreLeftByNothingBetweenTwoOfTheirParts) {
  with_lists_in_parts([&](const InstructionList& list, PlanningTools& tools) {
    const Draft draft = tools.draft(list);
    const std::vector<Step>& steps = draft.schedule.steps;
    for (const IdleStretch& stretch : idle_stretches(draft)) {
      if (stretch.after < 0) continue;
      const auto is_whole = [](const Step& step) { return step.parts == 1; };
      const auto from = steps.begin() + stretch.after, to = steps.begin() + stretch.before;
      EXPECT_TRUE(std::any_of(from, to + 1, is_whole) || from->part >= to->part) << stretch.value.name();
    }
  });
}

}  // namespace
}  // namespace sectionflow::testing

#include "fit/joint_lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fit/make_problem.h"
#include "fit/plan_file.h"
#include "graph/ops/dropout.h"
#include "planning/search.h"
#include "swap/simulate.h"
#include "tests/fit/fit_case.h"
#include "tests/support/training_spec.h"

namespace sectionflow::testing {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TrainingCase blocks(int layers, std::int64_t features = 8) {
  return {"blocks", [=](Graph& graph, GraphSectionManager& manager) {
            const Inputs in(graph);
            Value x = in.images;
            for (int i = 0; i < layers; ++i)
              x = dropout(conv_norm_relu(x, in.is_training, features), in.is_training, {.rate = 0.2F});
            const Value loss = head_section(manager, x, in.labels);
            finish(manager, loss);
            return TrainingNet{loss, in.feeds()};
          }};
}

Profile slow_link(double bytes_per_second) {
  return {.flops = 1e9, .memory_bandwidth = 1e8, .link_out = bytes_per_second, .link_in = bytes_per_second};
}

TEST(JointLists, AreQuickerThanExecutionsOrCopiesAloneAndChangeNoBit) {
  const TrainingCase net = blocks(4);
  const Profile profile = slow_link(7e6);
  const auto planned = [&](std::size_t device, const FitBudgetOptions& fit) {
    return Fitted(net, checked({.copy_threads = true}, device), fit).plan();
  };
  const std::size_t whole = planned(1_GiB, {.profile = profile}).planned_peak_bytes;
  // Below what one operation alone needs nothing is searched for.
  const std::size_t operands = planned(1, {.profile = profile}).planned_peak_bytes;
  const std::size_t least = planned(operands, {.profile = profile}).planned_peak_bytes;
  const std::size_t half = least + (whole - least) / 2;
  Fitted fitted(net, checked({.copy_threads = true}, half), {.profile = profile});
  const ProgramReport report = fitted.plan();
  const ProgramReport again = planned(half, {.profile = profile, .may_swap = false});
  const ProgramReport away = planned(half, {.profile = profile, .may_recompute = false});
  ASSERT_TRUE(report.fits && again.fits);
  // Found together, or one after the other: the copies of a list that computes again.
  EXPECT_THAT(report.notes, Contains(AnyOf(HasSubstr("waits for copies"), HasSubstr("offloaded; expected"))));
  EXPECT_GT(report.recomputed_operations, 0);
  const double once = planned(1_GiB, {.profile = profile}).predicted_seconds;
  EXPECT_GE(report.predicted_seconds, once);
  EXPECT_LT(report.predicted_seconds - once, 0.9 * (again.predicted_seconds - once));
  if (away.fits) {
    EXPECT_LT(report.predicted_seconds - once, 0.9 * (away.predicted_seconds - once));
  }

  // Goes on by the plan in a file, so that it is not searched for once more.
  const FitBudgetOptions by_plan{.profile = profile,
                                 .effort = std::int64_t{1} << 40,
                                 .plan = FitPlan::from_text(plan_of(fitted.session()).text(), "")};
  TrainOptions options{.steps = 3, .threads = 1};
  options.session = {.device_memory = half, .copy_threads = true};
  options.on_session = [&](How, const Graph&, Session& session) { fit_budget(session, by_plan); };
  const TrainingRecord plain = record_training(net, How::whole, {.steps = 3, .threads = 1});
  const TrainingRecord joint = record_training(net, How::whole, options);
  EXPECT_EQ(first_difference(plain, joint), "");
  EXPECT_THAT(joint.complaints, IsEmpty());
}

/// What a plan with copies comes to as a list, beside what it was evaluated to.
struct Written {
  double plan_seconds = 0, list_seconds = 0;
  std::int64_t budget = 0, list_peak = 0;
  int num_copies_in = 0, num_holds_of_offloads = 0;
};

std::vector<Written> written_plans(const std::vector<double>& links) {
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainingNet net = blocks(4, 32).build(graph, manager);
  Session session(graph, {.copy_threads = true, .threads = 1});
  std::vector<Written> all;
  engine(session).set_instruction_editor("written", [&](const InstructionList& list, PlanningTools& tools) {
    for (const double rate : links) {
      const Profile profile = slow_link(rate);
      StepTimes times(tools, profile);
      const ListProblem problem = make_list_problem(list, tools.draft(list), tools, times);
      const std::int64_t most = planning::default_peak(problem.problem());
      for (const int percent : {40, 70}) {
        const planning::Link link{.bytes_per_second = rate, .latency = profile.launch_seconds};
        const planning::Limits limits{.budget = most / 100 * percent, .link = link};
        const planning::SearchResult found =
            search_plan(problem.problem(), {.budget = limits.budget, .link = limits.link, .effort = 400'000});
        if (!found.plan) continue;
        const InstructionList planned = problem.list_of(*found.plan, limits);
        Draft draft = tools.draft(planned);
        Written written{.plan_seconds = found.evaluation.seconds, .budget = limits.budget};
        written.list_seconds = predict(draft, times).seconds;
        written.list_peak = static_cast<std::int64_t>(draft.plan.lower_bound_bytes);
        for (const Instruction& instruction : planned.instructions) {
          written.num_copies_in += instruction.kind == StepKind::copy_in ? 1 : 0;
          written.num_holds_of_offloads += instruction.kind == StepKind::hold && instruction.offload >= 0 ? 1 : 0;
        }
        all.push_back(written);
      }
    }
    return list;
  });
  FeedStore store;
  session.plan({net.loss}, types_of(net.feeds(0, store)), {.targets = manager.training_operations()});
  return all;
}

TEST(JointLists, ListsOfPlansTakeTheTimeAndTheBytesOfThePlans) {
  int copies = 0, holds = 0;
  const std::vector<Written> all = written_plans({1e7, 3e7, 1e8});
  ASSERT_GE(all.size(), 5);
  for (const Written& written : all) {
    copies += written.num_copies_in;
    holds += written.num_holds_of_offloads;
    // A copy that waits for a neighbour's bytes makes a list slower; small values that replays read make it larger.
    EXPECT_LE(written.list_seconds, 1.05 * written.plan_seconds);
    EXPECT_LE(written.list_peak, written.budget + written.budget / 50);
  }
  EXPECT_GT(copies, 10);
  EXPECT_GT(holds, 0);
}

TEST(JointLists, OfALinkThatTakesNoTimeAreFound) {
  constexpr double fastest = 1e18;  // as fast as a profile may say
  const auto planned = [&](std::size_t device) {
    return Fitted(blocks(2), checked({.copy_threads = true}, device), few({.profile = slow_link(fastest)})).plan();
  };
  const ProgramReport whole = planned(1_GiB);
  const ProgramReport report = planned(whole.planned_peak_bytes * 9 / 10);
  EXPECT_TRUE(report.fits);
  EXPECT_LT(report.predicted_seconds, 1.1 * whole.predicted_seconds);
}

}  // namespace
}  // namespace sectionflow::testing

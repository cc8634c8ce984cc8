#include "planning/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/planning/every_plan.h"
#include "tests/planning/simple_evaluator.h"

namespace sectionflow::planning {
namespace {

using testing::HasSubstr;
using StepKind = PlanStep::Kind;

/// a -> b -> c, each of 10 bytes and 1 second; c reads a too.
Problem triangle() {
  Problem problem;
  problem.operations = {{"a", 1, 0, {}, {0}}, {"b", 1, 0, {0}, {1}}, {"c", 1, 5, {0, 1}, {2}}};
  problem.values = {{"x", 10, 0}, {"y", 10, 1}, {"z", 10, 2}};
  return problem;
}

Plan plan_of_steps(std::vector<PlanStep> steps) {
  return {std::move(steps)};
}

void expect_fault(const Problem& problem, const Plan& plan, const Limits& limits, std::size_t step,
                  const std::string& text) {
  const Evaluation evaluation = evaluate(problem, plan, limits);
  EXPECT_FALSE(evaluation.ok);
  EXPECT_EQ(evaluation.fault_step, step) << evaluation.fault;
  EXPECT_THAT(evaluation.fault, HasSubstr(text));
}

TEST(Evaluate, DefaultPlanDropsWhatNothingReadsAnyMore) {
  const Problem problem = triangle();
  const Plan plan = default_plan(problem);
  EXPECT_THAT(plan.steps, testing::ElementsAre(PlanStep{StepKind::compute, 0}, PlanStep{StepKind::compute, 1},
                                               PlanStep{StepKind::compute, 2}, PlanStep{StepKind::drop, 2},
                                               PlanStep{StepKind::drop, 0}, PlanStep{StepKind::drop, 1}));
  const Evaluation evaluation = evaluate(problem, plan);
  EXPECT_TRUE(evaluation.ok) << evaluation.fault;
  EXPECT_EQ(evaluation.peak, 35);
  EXPECT_EQ(default_peak(problem), 35);
  EXPECT_EQ(evaluation.cost, 3);
  EXPECT_EQ(evaluation.seconds, 3);
  EXPECT_EQ(default_cost(problem), 3);
}

TEST(Evaluate, FaultsAreNamedWithTheirStep) {
  const Problem problem = triangle();
  const Limits link{.link = {10, 0}};
  const PlanStep a{StepKind::compute, 0}, b{StepKind::compute, 1}, c{StepKind::compute, 2};
  expect_fault(problem, plan_of_steps({a, {StepKind::compute, 3}}), {}, 1, "index 3 is none of the 3 operations");
  expect_fault(problem, plan_of_steps({{StepKind::drop, -1}}), {}, 0, "index -1 is none of the 3 values");
  expect_fault(problem, plan_of_steps({b}), {}, 0, "operation 1 'b' reads value 0 'x', not resident");
  expect_fault(problem, plan_of_steps({a, {StepKind::drop, 1}}), {}, 1, "value 1 'y' is dropped and not resident");
  expect_fault(problem, plan_of_steps({{StepKind::out, 0}}), link, 0, "value 0 'x' is copied out and not resident");
  expect_fault(problem, plan_of_steps({a, {StepKind::out, 0}}), {}, 1, "there is no link");
  expect_fault(problem, plan_of_steps({a, {StepKind::out, 0}, {StepKind::out, 0}}), link, 2,
               "has a copy in host memory");
  expect_fault(problem, plan_of_steps({a, {StepKind::out, 0}, {StepKind::in, 0}}), link, 2,
               "is copied in and is resident");
  expect_fault(problem, plan_of_steps({a, {StepKind::drop, 0}, {StepKind::in, 0}}), link, 2,
               "has no copy in host memory");
  expect_fault(problem, plan_of_steps({a, b}), {}, 2, "operation 2 'c' is never executed");
  expect_fault(problem, plan_of_steps({a, b, c}), {.budget = 34}, 2, "bytes in device memory to 35, the budget is 34");

  Problem strict = triangle();
  strict.operations[0].repeatable = false;
  strict.values[0].movable = false;
  strict.values[1].needed_at_end = true;
  strict.order = {{1, 2}};
  expect_fault(strict, plan_of_steps({a, {StepKind::drop, 0}, a}), {}, 2,
               "'a' is executed again and is not repeatable");
  expect_fault(strict, plan_of_steps({a, {StepKind::out, 0}}), link, 1, "must stay in device memory");
  expect_fault(strict, plan_of_steps({a, b, c, {StepKind::drop, 1}}), {}, 4, "'y' is needed at the end");
  strict.operations[2].inputs = {0};
  expect_fault(strict, plan_of_steps({a, c}), {}, 1, "'c' is executed before operation 1 'b'");
  EXPECT_THROW(evaluate(strict, {}, {.link = {-1, 0}}), ArgumentError);
}

TEST(Evaluate, ExecutionsAfterTheFirstTakeTimesOfTheirOwn) {
  Problem problem;
  problem.operations = {{"a", 5, 0, {}, {0}, true, 2.0}, {"b", 1, 0, {0}, {1}}};
  problem.values = {{"x", 10, 0}, {"y", 10, 1}};
  using Kind = PlanStep::Kind;
  const Plan plan{{{Kind::compute, 0}, {Kind::compute, 1}, {Kind::drop, 0}, {Kind::compute, 0}, {Kind::compute, 0}}};
  EXPECT_EQ(evaluate(problem, plan).cost, 5 + 1 + 2 + 2);
}

TEST(Evaluate, WhatEndsAnOperationComesAfterAllItsExecutions) {
  Problem problem;
  problem.operations = {{"read", 1, 0, {}, {0}}, {"update", 1, 0, {}, {}, false}};
  problem.values = {{"x", 10, 0}};
  problem.ends = {{0, 1}};
  using Kind = PlanStep::Kind;
  const PlanStep read{Kind::compute, 0}, drop{Kind::drop, 0}, update{Kind::compute, 1};
  EXPECT_TRUE(evaluate(problem, {{read, drop, read, update}}).ok);
  const Evaluation late = evaluate(problem, {{read, drop, update, read}});
  EXPECT_FALSE(late.ok);
  EXPECT_EQ(late.fault_step, 3U);
  EXPECT_NE(late.fault.find("'update'"), std::string::npos) << late.fault;
}

/// "b" writes y over x, where x is not needed any more.
TEST(Evaluate, AnOutputMayTakeTheBytesOfAnInputThatIsDroppedBehindIt) {
  Problem problem;
  problem.operations = {{"a", 1, 0, {}, {0}}, {"b", 1, 5, {0}, {1}}, {"c", 1, 0, {1}, {}}};
  problem.values = {{"x", 10, 0}, {"y", 10, 1}};
  problem.operations[1].overwrites = {{0, 1}};
  using Kind = PlanStep::Kind;
  const PlanStep a{Kind::compute, 0}, b{Kind::compute, 1}, c{Kind::compute, 2}, drop{Kind::drop, 0};
  EXPECT_EQ(evaluate(problem, {{a, b, drop, c}}).peak, 15);
  EXPECT_EQ(evaluate(problem, {{a, b, c, drop}}).peak, 25);
  EXPECT_EQ(default_peak(problem), 15);
  EXPECT_EQ(working_set(problem, 1), 15);
  EXPECT_EQ(evaluate(problem, {{a, b, drop, a, c}}, {.budget = 20}).peak, 20);
  // A copy that may still be under way reads x.
  const PlanStep out{Kind::out, 0};
  const Limits slow{.link = {1, 0}};
  EXPECT_EQ(evaluate(problem, {{a, out, b, drop, c}}, slow).peak, 25);
  EXPECT_EQ(evaluate(problem, {{a, b, out, drop, c}}, slow).peak, 25);
  // One output takes one input's place; the next has to take another's.
  problem.operations[1] = {"b", 1, 0, {0, 2}, {1, 3}};
  problem.values = {{"x", 10, 0}, {"y", 10, 1}, {"w", 10, -1}, {"z", 10, 1}};
  problem.operations[1].overwrites = {{0, 1}, {0, 3}, {2, 1}, {2, 3}};
  const PlanStep drop_w{Kind::drop, 2};
  EXPECT_EQ(evaluate(problem, {{a, b, drop, drop_w, c}}).peak, 20);
  EXPECT_EQ(evaluate(problem, {{a, b, drop, c}}).peak, 30);
  problem.values[2].needed_at_end = true;
  EXPECT_EQ(working_set(problem, 1), 30);
}

TEST(Evaluate, GivenValuesMustFitToo) {
  Problem problem;
  problem.values = {{"w", 10, -1}};
  expect_fault(problem, {}, {.budget = 9}, 0, "given values take 10 bytes");
}

// x leaves while b runs and comes back while d runs: only what a copy is longer than that is waited for.
TEST(Evaluate, CopiesRunBesideExecutions) {
  Problem problem;
  problem.operations = {{"a", 1, 0, {}, {0}}, {"b", 2, 0, {}, {1}}, {"d", 2, 0, {1}, {2}}, {"e", 1, 0, {0, 2}, {3}}};
  problem.values = {{"x", 10, 0}, {"y", 10, 1}, {"u", 10, 2}, {"z", 10, 3}};
  const Plan plan = plan_of_steps({{StepKind::compute, 0},
                                   {StepKind::out, 0},
                                   {StepKind::compute, 1},
                                   {StepKind::drop, 0},
                                   {StepKind::compute, 2},
                                   {StepKind::drop, 1},
                                   {StepKind::in, 0},
                                   {StepKind::compute, 3}});
  // Out from 1 to 3. The place of y is free at 5, and the copy in takes 2 more seconds.
  const Evaluation tight = evaluate(problem, plan, {.budget = 30, .link = {5, 0}});
  ASSERT_TRUE(tight.ok) << tight.fault;
  EXPECT_EQ(tight.peak, 30);
  EXPECT_EQ(tight.cost, 6);
  EXPECT_EQ(tight.bytes_out, 10);
  EXPECT_EQ(tight.bytes_in, 10);
  EXPECT_EQ(tight.seconds, 6);
  // A slower link: out until 6, in from 6 to 11.
  const Evaluation slow = evaluate(problem, plan, {.budget = 30, .link = {2, 0}});
  EXPECT_EQ(slow.seconds, 12);
  EXPECT_EQ(slow.stall_seconds, 6);
  // With latency: out until 3.5, in until 6.
  EXPECT_EQ(evaluate(problem, plan, {.budget = 30, .link = {5, 0.5}}).seconds, 7);
}

TEST(Evaluate, EachStepHasItsTimes) {
  Problem problem;
  problem.operations = {{"a", 1, 0, {}, {0}}, {"b", 2, 0, {}, {1}}, {"c", 1, 0, {0, 1}, {2}}};
  problem.values = {{"x", 10, 0}, {"y", 10, 1}, {"z", 10, 2}};
  const Plan plan = plan_of_steps({{StepKind::compute, 0},
                                   {StepKind::out, 0},
                                   {StepKind::drop, 0},
                                   {StepKind::compute, 1},
                                   {StepKind::in, 0},
                                   {StepKind::compute, 2}});
  const Limits limits{.budget = 30, .link = {5, 0}};
  const std::vector<StepSpan> spans = spans_of(problem, plan, limits);
  const std::vector<std::pair<double, double>> wanted = {{0, 1}, {1, 3}, {3, 3}, {1, 3}, {3, 5}, {5, 6}};
  ASSERT_EQ(spans.size(), wanted.size());
  for (std::size_t i = 0; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i].begin, wanted[i].first) << "step " << i;
    EXPECT_EQ(spans[i].end, wanted[i].second) << "step " << i;
  }
  EXPECT_EQ(evaluate(problem, plan, limits).seconds, 6);
  // Each copy delays the executions by 2: b from 3 to 5, c from 7 on.
  EXPECT_EQ(evaluate(problem, plan, {.budget = 30, .link = {5, 0, 0.2}}).seconds, 8);
  EXPECT_THROW(evaluate(problem, plan, {.budget = 30, .link = {5, 0, -0.2}}), ArgumentError);
  EXPECT_THROW(spans_of(problem, plan, {.budget = 15, .link = {5, 0}}), ArgumentError);
}

// A step that needs the bytes of a value that is still being copied out waits for that copy.
TEST(Evaluate, BytesAreThereWhenTheCopyOutIsDone) {
  Problem problem;
  problem.operations = {{"a", 1, 0, {}, {0}}, {"b", 1, 0, {}, {1}}};
  problem.values = {{"x", 10, 0}, {"y", 10, 1}};
  const Plan plan =
      plan_of_steps({{StepKind::compute, 0}, {StepKind::out, 0}, {StepKind::drop, 0}, {StepKind::compute, 1}});
  EXPECT_EQ(evaluate(problem, plan, {.budget = 20, .link = {2, 0}}).stall_seconds, 4);  // the copy itself ends at 6
  const Evaluation waiting = evaluate(problem, plan, {.budget = 10, .link = {2, 0}});
  ASSERT_TRUE(waiting.ok) << waiting.fault;
  EXPECT_EQ(waiting.seconds, 7);
  EXPECT_EQ(waiting.peak, 10);
}

/// Steps by chance, most of which are possible, until every operation is executed or there are too many.
Plan random_plan(const Problem& problem, RandomProblems& random, bool has_link) {
  std::set<int> resident, host, done;
  for (int i = 0; i < static_cast<int>(problem.values.size()); ++i) {
    if (problem.values[static_cast<std::size_t>(i)].producer < 0) resident.insert(i);
  }
  Plan plan;
  const int operations = static_cast<int>(problem.operations.size()), values = static_cast<int>(problem.values.size());
  int next = 0;
  for (int tries = 0; next < operations && tries < 400; ++tries) {
    const int dice = random.draw(0, 9);
    const int value = values > 0 ? random.draw(0, values - 1) : 0;
    if (dice < 6 || values == 0) {
      const int id = dice < 4 || next == 0 ? next : random.draw(0, next - 1);
      const Operation& operation = problem.operations[static_cast<std::size_t>(id)];
      const bool there = std::ranges::all_of(operation.inputs, [&](int input) { return resident.contains(input); });
      if (!there || (id < next && !operation.repeatable)) {
        // What is missing is made again, or comes back.
        for (const int input : operation.inputs) {
          if (!resident.contains(input) && host.contains(input)) {
            plan.steps.push_back({StepKind::in, input});
            resident.insert(input);
          } else if (const int producer = problem.values[static_cast<std::size_t>(input)].producer;
                     !resident.contains(input) && producer >= 0) {
            plan.steps.push_back({StepKind::compute, producer});
            for (const int output : problem.operations[static_cast<std::size_t>(producer)].outputs)
              resident.insert(output);
          }
        }
        continue;
      }
      plan.steps.push_back({StepKind::compute, id});
      for (const int output : operation.outputs) resident.insert(output);
      next = std::max(next, id + 1);
      for (const Overwrite& pair : operation.overwrites) {
        if (random.draw(0, 1) == 0 || resident.erase(pair.input) == 0) continue;
        plan.steps.push_back({StepKind::drop, pair.input});
      }
    } else if (dice == 6 && resident.contains(value)) {
      if (!host.contains(value) && random.draw(0, 2) > 0) continue;
      plan.steps.push_back({StepKind::drop, value});
      resident.erase(value);
    } else if (dice < 9 && has_link && resident.contains(value) && host.insert(value).second) {
      plan.steps.push_back({StepKind::out, value});
    } else if (dice == 9 && host.contains(value) && resident.insert(value).second) {
      plan.steps.push_back({StepKind::in, value});
    }
  }
  return plan;
}

constexpr std::uint64_t kSeedOfPlans = 77;

TEST(Evaluate, AgreesWithASimplerEvaluatorOnRandomPlans) {
  SCOPED_TRACE(testing::Message() << "seed " << kSeedOfPlans);
  RandomProblems random(kSeedOfPlans);
  int valid = 0, faulty = 0, waiting = 0, overwriting = 0;
  for (int i = 0; i < 4000; ++i) {
    const Problem problem = random.next({});
    const Link link{random.draw(0, 3) > 0 ? random.draw(1, 6) * 0.5 : 0, random.draw(0, 1) * 0.25,
                    random.draw(0, 1) * 0.125};
    const Plan plan = random_plan(problem, random, link.bytes_per_second > 0);
    const std::int64_t peak = evaluate(problem, plan, {.link = link}).peak;
    const Limits limits{peak + random.draw(-1, 6), link};
    const Evaluation evaluation = evaluate(problem, plan, limits);
    const std::optional<SimplePrice> simple = SimpleEvaluator(problem, limits).price(plan);
    ASSERT_EQ(evaluation.ok, simple.has_value()) << "problem " << i << ": " << evaluation.fault;
    (evaluation.ok ? valid : faulty) += 1;
    if (!simple) continue;
    EXPECT_EQ(evaluation.peak, simple->peak) << "problem " << i;
    EXPECT_EQ(evaluation.cost, simple->cost) << "problem " << i;
    EXPECT_NEAR(evaluation.seconds, simple->seconds, 1e-9) << "problem " << i;
    waiting += evaluation.stall_seconds > 0 ? 1 : 0;
    Problem apart = problem;
    for (Operation& operation : apart.operations) operation.overwrites.clear();
    overwriting += evaluate(apart, plan, {.link = link}).peak > evaluation.peak ? 1 : 0;
    const Limits more{limits.budget + 3, {link.bytes_per_second * 1.5, link.latency, link.drag}};
    EXPECT_LE(evaluate(problem, plan, more).seconds, evaluation.seconds) << "problem " << i;
  }
  EXPECT_GT(valid, 500);
  EXPECT_GT(faulty, 500);
  EXPECT_GT(waiting, 100);
  EXPECT_GT(overwriting, 20);
}

}  // namespace
}  // namespace sectionflow::planning

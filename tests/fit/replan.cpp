// Programs that have come to take longer are planned again, by no clock: what steps take is said here.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fit/plan_content.h"
#include "fit/program_fitter.h"
#include "tests/fit/replan_case.h"
#include "tests/support/log_lines.h"
#include "tests/support/temporary_folder.h"
#include "train/checkpoints.h"

namespace sectionflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_support::LogLines;

HostTensor step_by_halves(Fitted& fitted, std::int64_t step) {
  return fitted.run_halves(step);
}
HostTensor cycle_step(Fitted& fitted, std::int64_t step) {
  return fitted.run_cycle(step);
}

void expect_replanned_to_recomputing(Drifting& training, const std::function<ProgramReport()>& plan) {
  const ProgramReport before = plan();
  ASSERT_TRUE(before.fits);
  ASSERT_GT(before.bytes_out, 0) << "there is something to be had from computing again instead";
  training.drift();
  EXPECT_EQ(replanned(training.fitted), 0) << "between two cycles, and not before";
  const std::int64_t kept = training.fitted.session().statistics().programs_kept;
  LogLines log;
  training.train(3, 1.2);
  EXPECT_EQ(replanned(training.fitted), 1);
  EXPECT_EQ(training.fitted.session().statistics().programs_kept, kept) << "the old program is gone";
  EXPECT_THAT(log.lines, Contains(AllOf(HasSubstr("planned again after 1.2 s in place of 1 s"),
                                        HasSubstr("from here on; 1 of at most 6"))));
  const ProgramReport after = plan();
  EXPECT_TRUE(after.fits);
  EXPECT_LT(after.bytes_out, before.bytes_out);
  EXPECT_GT(after.recomputed_operations, before.recomputed_operations);
  EXPECT_THAT(after.notes, Contains(HasSubstr("fit_budget: planned again after")));
  // Measured to the byte, and within the budget.
  training.fitted.session().set_measuring(true);
  training.train(1, 1.2);
  const Statistics& figures = training.fitted.session().statistics();
  EXPECT_EQ(figures.measured_peak_bytes, after.planned_peak_bytes);
  EXPECT_LE(figures.measured_peak_bytes, training.fitted.session().budget_bytes());
  training.fitted.session().set_measuring(false);
  training.train(60, 1.2);
  EXPECT_EQ(replanned(training.fitted), 1) << "as long as it takes then is what is expected";
}

TEST(Replan, ThatIsStoppedKeepsThePlanAndIsMadeLater) {
  bool is_stopped = false;
  int left = 0;  // questions until it is
  FitBudgetOptions fit = on_drift();
  fit.stop = [&] { return is_stopped || --left == 0; };
  Drifting training(whole_step, case_of({}), fit);
  training.drift();
  is_stopped = true;
  training.train(3, 1.2);
  is_stopped = false;
  left = 4;  // amid the search
  training.train(1, 1.2);
  EXPECT_LE(left, 0);
  EXPECT_EQ(replanned(training.fitted), 0);
  LogLines log;
  training.train(1, 1.2);
  EXPECT_EQ(replanned(training.fitted), 1);
  EXPECT_THAT(log.lines, Contains(HasSubstr("; 1 of at most 6"))) << "those that were stopped do not count";
}

TEST(Replan, OfAWholeStepThatDriftsChangesNoBit) {
  Drifting training(whole_step);
  expect_replanned_to_recomputing(training, [&] { return training.fitted.plan(); });
}

TEST(Replan, OfACycleInSectionsThatDriftsChangesNoBit) {
  Drifting training(cycle_step);
  expect_replanned_to_recomputing(training, [&] { return training.fitted.plan_cycle(); });
}

TEST(Replan, OfACycleByHalvesThatDriftsChangesNoBit) {
  Drifting training(step_by_halves);
  expect_replanned_to_recomputing(training, [&] { return training.fitted.plan_halves(); });
}

/// Gradients of two micro-batches are summed: each has a program of its own.
TrainingCase accumulating() {
  return {"a net in micro-batches", [](Graph& graph, GraphSectionManager& manager) {
            const Inputs in(graph);
            Value x = in.images, loss;
            for (int part = 0; part < 2; ++part) {
              const auto section = manager.new_section();
              for (int i = 0; i < 2; ++i)
                x = dropout(conv_norm_relu(x, in.is_training, 8), in.is_training, {.rate = 0.2F});
              if (part == 1) loss = head_loss(x, in.labels);
            }
            manager.add_training_ops(Adam{.learning_rate = 1e-2F}, loss, {.micro_batches = 2});
            manager.prepare_training();
            return TrainingNet{loss, in.feeds(), {loss}, in.feeds(nullptr, false)};
          }};
}

TEST(Replan, OfEachMicroBatchByItselfChangesNoBit) {
  Drifting training(whole_step, accumulating());
  training.train(2 * kBegun, 1);
  training.train(2 * (kTimed - kBegun) + 2, 1.2);
  EXPECT_GE(replanned(training.fitted), 1);
  training.train(5, 1.2);
}

TEST(Replan, IsNoneWhereStepsDoNotDrift) {
  Drifting training(whole_step);
  training.train(kBegun, 1);
  LogLines log;
  training.train(40, 1.09);
  for (int i = 0; i < 3; ++i) {
    training.train(ProgramFitter::kStepsInARow - 1, 1.5);
    training.train(1, 1);
  }
  EXPECT_EQ(replanned(training.fitted), 0);
  EXPECT_THAT(log.lines, Each(Not(HasSubstr("fit_budget"))));
}

TEST(Replan, IsNoneWhereNobodyAsksForIt) {
  FitBudgetOptions fit = on_drift();
  fit.replan = Replan::never;
  Drifting training(whole_step, case_of({}), fit);
  training.drift();
  training.train(3, 5);
  EXPECT_EQ(training.pace.told, 0) << "nobody wants to know";
  EXPECT_EQ(replanned(training.fitted), 0);
}

TEST(Replan, PassesOverStepsThatAreLookedAt) {
  Drifting training(whole_step);
  training.train(kBegun, 1);
  const int told = training.pace.told;
  Trace trace;
  training.fitted.session().set_trace(&trace);
  training.train(10, 9);
  training.fitted.session().set_trace(nullptr);
  training.fitted.session().set_measuring(true);
  training.train(10, 9);
  training.fitted.session().set_measuring(false);
  training.fitted.session().set_value_checks({.nan = true});
  training.train(10, 9);
  EXPECT_EQ(training.pace.told, told);
}

TEST(Replan, OfAProgramThatIsExecutedAsItWasWrittenIsNone) {
  Fitted ample(case_of({}), checked({}, 1_GiB), on_drift());
  Pace pace(ample.session());
  ample.session().initialize();
  for (int i = 0; i < 3; ++i) ample.run(i);
  EXPECT_EQ(pace.told, 0);
}

TEST(Replan, LeavesTheProgramWhereNoPlanIsQuicker) {
  Drifting training(whole_step);
  training.pace.copies = 0;
  const std::string before = plan_of(training.fitted.session()).text();
  const ProgramReport planned = training.fitted.plan();
  training.drift();
  LogLines log;
  training.train(1, 1.2);
  EXPECT_EQ(replanned(training.fitted), 0);
  EXPECT_THAT(log.lines, Contains(HasSubstr("and no plan is quicker by more than 1 %; 1 of at most 6")));
  EXPECT_EQ(training.fitted.plan().notes, planned.notes);
  // What is slower still is looked at again, after twice as many.
  training.train(kBegun, 1.2);
  training.train(2 * ProgramFitter::kStepsInARow - 1, 2);
  EXPECT_THAT(log.lines, Each(Not(HasSubstr("40 times in a row"))));
  training.train(1, 2);
  EXPECT_THAT(log.lines, Contains(HasSubstr("40 times in a row")));
}

TEST(Replan, LeavesAPendingHalfToItsProgram) {
  Fitted fitted(case_of({}), budgets_here(), on_drift()), plain(case_of({}), budgets_here(), on_drift());
  Pace pace(fitted.session());
  Pace steady(plain.session());
  fitted.session().initialize();
  plain.session().initialize();
  for (int i = 0; i < kTimed; ++i) {
    pace.seconds = i < kBegun ? 1 : 1.2;
    ASSERT_TRUE(bitwise_equal(fitted.run(i), plain.run(i)));
  }
  const auto with_a_look = [&](Fitted& each, bool looks) {
    return each.run_halves(kTimed, [&] {
      if (looks) (void)each.plan();
    });
  };
  EXPECT_TRUE(bitwise_equal(with_a_look(fitted, true), with_a_look(plain, false)));
  EXPECT_EQ(replanned(fitted), 0) << "the plan was asked for while a half was pending";
  EXPECT_TRUE(bitwise_equal(fitted.run(kTimed + 1), plain.run(kTimed + 1)));
  EXPECT_EQ(replanned(fitted), 1);
  EXPECT_EQ(replanned(plain), 0);
  EXPECT_EQ(first_other(fitted, plain), "");
}

TEST(Replan, IsKeptInPlansAndCheckpoints) {
  Drifting training(whole_step);
  training.train(1, 1);
  const std::string before = plan_of(training.fitted.session()).text();
  training.train(kBegun - 1, 1);
  training.train(kTimed - kBegun + 1, 1.2);
  ASSERT_EQ(replanned(training.fitted), 1);
  EXPECT_NE(plan_of(training.fitted.session()).text(), before);
  const TemporaryFolder folder;
  Checkpoints checkpoints((folder.path() / "run").string());
  ASSERT_TRUE(checkpoints.save(training.fitted.session(), {.step = 1}));

  FitBudgetOptions fit = without_search(on_drift(), {});
  fit.profile.reset();
  Fitted resumed(case_of({}), budgets_here(), fit);
  resumed.session().initialize();
  const auto restored = checkpoints.restore_latest(resumed.session());
  ASSERT_TRUE(restored && restored->checkpoint.profile);
  EXPECT_GT(restored->checkpoint.profile->kernel_seconds.size(), 10U);
  EXPECT_EQ(resumed.plan().predicted_seconds, training.fitted.plan().predicted_seconds);
  EXPECT_EQ(plan_of(resumed.session()).text(), plan_of(training.fitted.session()).text());
}

/// The planner and a program of its own, of which executions are only said.
struct Said {
  explicit Said(const FitBudgetOptions& fit)
      : fitted(case_of({}), budgets_here(), fit),
        fitter(std::make_shared<ProgramFitter>(engine(fitted.session()), fit)) {
    engine(fitted.session()).set_planner("said", fitter);
    fitted.session().initialize();
    (void)fitted.run(0);
  }
  Executable& program() { return const_cast<Executable&>(*engine(fitted.session()).latest_program()); }
  ExecutedSchedule executed(const ConcreteGraph& graph) {
    return {program().schedule, graph, program().kernels, engine(fitted.session()).carrier(), 0};
  }
  /// Until it is due; how many executions that took, 0 where it does not come to that.
  int until_due(double seconds, int at_most) {
    for (int i = 1; i <= at_most; ++i) {
      const TimesWanted wanted = fitter->times_wanted(program());
      if (wanted == TimesWanted::none) return 0;
      ExecutionTimes times{.seconds = seconds};
      if (wanted == TimesWanted::steps) times.steps.assign(program().schedule.steps.size(), 1e-4);
      fitter->note_times(program(), times);
      if (fitter->is_due(program())) return i;
    }
    return 0;
  }

  Fitted fitted;
  std::shared_ptr<ProgramFitter> fitter;
};

TEST(Replan, IsDoneAtTwiceAsManyStepsEachTimeAndSixTimesAtMost) {
  FitBudgetOptions fit = on_drift();
  fit.effort = 2'000;
  Said said(fit);
  double seconds = 1;
  for (int i = 0; i < ProgramFitter::kMostReplans; ++i, seconds *= 1.2) {
    ASSERT_EQ(said.until_due(seconds, kBegun), 0);
    EXPECT_EQ(said.until_due(1.2 * seconds, 10'000), (ProgramFitter::kStepsInARow << i) + 1) << i;
    (void)said.fitter->plan_again(said.program());
    EXPECT_FALSE(said.fitter->is_due(said.program()));
  }
  EXPECT_EQ(said.fitter->times_wanted(said.program()), TimesWanted::none);
}

TEST(Replan, GoesByWhatIsPredictedWhereTheKernelsAreMeasured) {
  Profile measured;
  {
    Said said(on_drift());
    const ConcreteGraph graph(said.fitted.graph(), said.program().signature);
    const ExecutedSchedule executed = said.executed(graph);
    StepTimes times(graph, said.program().kernels, executed.carrier, 0, quick_link());
    measured = corrected_profile(executed, times.of(said.program().schedule), quick_link());
    EXPECT_EQ(measured_share(executed, quick_link()), 0);
    EXPECT_EQ(measured_share(executed, measured), 1);
  }
  FitBudgetOptions fit = on_drift();
  fit.profile = measured;
  Said said(fit);
  const double predicted = said.program().report.predicted_seconds;
  EXPECT_EQ(said.until_due(1.05 * predicted, 200), 0);
  EXPECT_EQ(said.until_due(1.15 * predicted, 200), ProgramFitter::kStepsInARow + 1);
}

}  // namespace
}  // namespace sectionflow::testing

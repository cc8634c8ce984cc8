#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "fit/drift_watch.h"
#include "fit/program_fitter.h"
#include "tests/fit/plan_case.h"

// Trainings whose steps come to take longer, by no clock.
namespace sectionflow::testing {

/// Executions until what is expected is known, until that has been too long often enough, and that which is timed.
constexpr int kBegun = DriftWatch::kNotCounted + DriftWatch::kFirst;
constexpr int kDrifted = kBegun + ProgramFitter::kStepsInARow;
constexpr int kTimed = kDrifted + 1;

/// On which offloading is quick, so that it is what a search chooses.
inline Profile quick_link() {
  return {.flops = 1e9, .memory_bandwidth = 1e8, .link_out = 1e12, .link_in = 1e12, .disk_out = 1e12, .disk_in = 1e12};
}

inline FitBudgetOptions on_drift() {
  return {.profile = quick_link(), .effort = 50'000, .replan = Replan::on_drift};
}

/// Says what executions take, in the place of a clock.
struct Pace {
  explicit Pace(Session& session) {
    engine(session).set_times_editor([this](const Program& program, ExecutionTimes& times) {
      ++told;
      times.seconds = seconds;
      for (std::size_t i = 0; i < times.steps.size(); ++i) {
        const Step& step = program.schedule.steps[i];
        const bool is_copy = is_transfer(step.kind);
        times.steps[i] = is_copy ? 1e-9 * static_cast<double>(carried_buffer(step, program.schedule).bytes) * copies
                                 : 1e-4 * kernels;
      }
    });
  }
  double seconds = 1;                ///< of an execution
  double kernels = 1, copies = 1e6;  ///< of one that is timed step by step
  int told = 0;
};

inline std::map<std::string, HostTensor> variables_in(Fitted& fitted) {
  std::map<std::string, HostTensor> variables;
  for (const Value& variable : fitted.graph().values(kVariables))
    variables[variable.name()] = fitted.session().read(variable);
  return variables;
}

inline std::string first_other(Fitted& a, Fitted& b) {
  const auto of_a = variables_in(a), of_b = variables_in(b);
  for (const auto& [name, tensor] : of_a)
    if (!bitwise_equal(tensor, of_b.at(name))) return name;
  return of_a.size() == of_b.size() ? "" : "other variables";
}

inline std::int64_t replanned(Fitted& fitted) {
  return fitted.session().statistics().programs_replanned;
}

inline const SessionOptions& budgets_here() {
  static const SessionOptions budgets = [] {
    SessionOptions options =
        tight(case_of({}), {"", {.host_memory = 16_MiB}, {.profile = quick_link(), .effort = 50'000}});
    options.check_schedules = true;
    return options;
  }();
  return budgets;
}

/// A training whose steps drift, beside one that is never planned again.
class Drifting {
 public:
  using Step = std::function<HostTensor(Fitted&, std::int64_t)>;
  explicit Drifting(Step step, const TrainingCase& net = case_of({}), const FitBudgetOptions& fit = on_drift(),
                    const SessionOptions& budgets = budgets_here())
      : fitted(net, budgets, fit), pace(fitted.session()), plain_(net, budgets, never(fit)), step_(step) {
    fitted.session().initialize();
    plain_.session().initialize();
  }
  /// So many steps, of so many seconds each; all losses and variables must be the other's.
  void train(int steps, double seconds) {
    pace.seconds = seconds;
    for (int i = 0; i < steps; ++i, ++done_)
      ASSERT_TRUE(bitwise_equal(step_(fitted, done_), step_(plain_, done_))) << "step " << done_;
    ASSERT_EQ(first_other(fitted, plain_), "") << "behind step " << done_;
  }
  void drift() {
    train(kBegun, 1);
    train(kTimed - kBegun, 1.2);
  }

  Fitted fitted;
  Pace pace;

 private:
  static FitBudgetOptions never(FitBudgetOptions fit) {
    fit.replan = Replan::never;
    return fit;
  }
  Fitted plain_;
  Step step_;
  std::int64_t done_ = 0;
};

inline HostTensor whole_step(Fitted& fitted, std::int64_t step) {
  return fitted.run(step);
}

}  // namespace sectionflow::testing

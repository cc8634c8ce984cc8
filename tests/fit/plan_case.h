#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fit/plan_file.h"
#include "graph/ops/dropout.h"
#include "tests/fit/fit_case.h"

// A network, ways to fit it, and plans of that.
namespace sectionflow::testing {

struct PlannedNet {
  int layers = 2;
  std::int64_t features = 8;
  bool drops = true;
  std::int64_t batch = kBatch, later_batch = kBatch;
};

/// Convolutions with batch norm, and dropout, in two sections.
inline TrainingCase case_of(const PlannedNet& net) {
  return {"a net", [=](Graph& graph, GraphSectionManager& manager) {
            const Inputs in(graph);
            Value x = in.images, loss;
            for (int part = 0; part < 2; ++part) {
              const auto section = manager.new_section();
              for (int i = 0; i < net.layers; ++i) {
                x = conv_norm_relu(x, in.is_training, net.features);
                if (net.drops) x = dropout(x, in.is_training, {.rate = 0.2F});
              }
              if (part == 1) loss = head_loss(x, in.labels);
            }
            finish(manager, loss);
            const auto batch_of = [=](std::int64_t step) { return step == 0 ? net.batch : net.later_batch; };
            return TrainingNet{loss, in.feeds(batch_of), {loss}, in.feeds(batch_of, false)};
          }};
}

struct PlanWay {
  const char* name;
  SessionOptions session;
  FitBudgetOptions fit;
  friend void PrintTo(const PlanWay& way, std::ostream* stream) { *stream << way.name; }
};

inline const std::vector<PlanWay>& plan_ways() {
  constexpr std::int64_t kEffort = 50'000;
  static const Profile slow{.flops = 1e9, .memory_bandwidth = 1e8, .link_out = 2e8, .link_in = 2e8};
  static const std::vector<PlanWay> all = {
      {"Recompute", {}, {.may_swap = false, .effort = kEffort}},
      {"Swap", {.copy_threads = true}, {.may_recompute = false, .effort = kEffort}},
      {"BothWithADisk",
       {.host_memory = 256_KiB, .disk = 64_MiB, .copy_threads = true},
       {.profile = slow, .effort = kEffort}},
      {"BothWithVariablesOnTheHost", {.swap_variables = true}, {.profile = slow, .effort = kEffort}},
  };
  return all;
}
inline const PlanWay& way_of_both() {
  return plan_ways()[2];
}
inline const PlanWay& way_with_variables_on_the_host() {
  return plan_ways()[3];
}

/// A third of the way from the least that a step comes down to, to what it takes as it is.
inline SessionOptions tight(const TrainingCase& net, const PlanWay& way) {
  const auto needed = [&](std::size_t device_memory) {
    Fitted fitted(net, checked(way.session, device_memory), few(way.fit));
    return std::max(fitted.plan().planned_peak_bytes, fitted.plan_cycle().planned_peak_bytes);
  };
  const std::size_t whole = needed(1_GiB), least = needed(needed(1));
  EXPECT_LT(least, whole - whole / 10);
  return checked(way.session, least + (whole - least) / 3);
}

/// A plan, and a search beside it that no test would see the end of.
inline FitBudgetOptions without_search(FitBudgetOptions fit, FitPlan plan) {
  fit.effort = std::int64_t{1} << 40;
  fit.plan = std::move(plan);
  return fit;
}

/// A plan for a training step, as a whole or by halves, an evaluation and the initial values, and its budgets.
struct TextOfPlan {
  TextOfPlan(const PlanWay& way, How how) : fit(way.fit), budgets(tight(case_of({}), way)) {
    Fitted fitted(case_of({}), budgets, fit);
    fitted.session().initialize();
    (void)(how == How::whole ? fitted.plan() : fitted.plan_halves());
    (void)fitted.plan_evaluation();
    text = plan_of(fitted.session()).text();
  }
  FitBudgetOptions fit;
  SessionOptions budgets;
  std::string text;
};
inline const TextOfPlan& whole_plan() {
  static const TextOfPlan plan(way_of_both(), How::whole);
  return plan;
}

}  // namespace sectionflow::testing

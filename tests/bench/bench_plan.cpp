// The program of plans, as one calls it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "planning/evaluate.h"
#include "planning/instance.h"
#include "tests/support/run_shell.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::planning {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

Outcome bench_plan(const std::string& arguments) {
  return run_shell(std::string(SF_BENCH_PLAN) + " " + arguments + " 2>&1");
}

class BenchPlan : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  /// What planning writes as JSON.
  json planned(const std::string& arguments) const {
    const Outcome outcome = bench_plan("--instance " + path("g") + " --json " + path("o") + " " + arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    std::ifstream stream(path("o"));
    return json::parse(stream);
  }
  void generate(const std::string& arguments) const {
    const Outcome outcome = bench_plan("--generate " + arguments + " --out " + path("g"));
    ASSERT_EQ(outcome.status, 0) << outcome.text;
  }
  TemporaryFolder folder_;
};

Plan plan_of(const json& steps) {
  Plan plan;
  const std::vector<std::string> kinds = {"compute", "drop", "out", "in"};
  for (const json& step : steps) {
    const auto entry = step.begin();
    const auto found = std::find(kinds.begin(), kinds.end(), entry.key());
    plan.steps.push_back({static_cast<PlanStep::Kind>(found - kinds.begin()), entry->get<int>()});
  }
  return plan;
}

TEST_F(BenchPlan, FiguresAreThoseOfThePlanThatIsWritten) {
  generate("chain --layers 8 --seed 3");
  const Problem problem = read_instance(path("g")).problem;
  const json found = planned("--budget 60% --effort 20000");
  const Evaluation evaluation = evaluate(problem, plan_of(found["plan"]), {.budget = found["budget"]});
  ASSERT_TRUE(evaluation.ok) << evaluation.fault;
  const double cost = default_cost(problem);
  EXPECT_EQ(found["n"], problem.operations.size());
  EXPECT_EQ(found["peak_default"], default_peak(problem));
  EXPECT_EQ(found["budget"], default_peak(problem) * 60 / 100);
  EXPECT_EQ(found["cost_default"], cost);
  EXPECT_EQ(found["peak"], evaluation.peak);
  EXPECT_DOUBLE_EQ(found["overhead"], 100 * (evaluation.seconds - cost) / cost);
  EXPECT_GE(found["gap_points"], 0);
  EXPECT_DOUBLE_EQ(found["gap_points"], found["overhead"].get<double>() - found["lower_bound_overhead"].get<double>());
  EXPECT_GE(found["budget"], found["working_set"]);
}

TEST_F(BenchPlan, TrainingStepsOfModelsArePlannedByTheirNames) {
  const Outcome outcome =
      bench_plan("--model mnist_resnet --batch 4 --budget 60% --effort 20000 --json " + path("o") + " --optimizer sgd");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  std::ifstream stream(path("o"));
  const json found = json::parse(stream);
  EXPECT_GT(found["n"], 20);
  EXPECT_LE(found["peak"], found["budget"]);
  EXPECT_GE(found["gap_points"], 0);
  bool has_name = false;
  for (const json& step : found["plan"]) {
    const std::string name = step.begin()->get<std::string>();
    has_name = has_name || name.starts_with("gradients/");
  }
  EXPECT_TRUE(has_name);
  EXPECT_THAT(bench_plan("--model none").text, HasSubstr("none"));
  EXPECT_NE(bench_plan("--model mnist_cnn --instance x").status, 0);
}

TEST_F(BenchPlan, CopiesAreLanesOfTheirOwn) {
  generate("gpt --layers 2");
  const json recomputed = planned("--budget 40% --effort 20000"),
             copied = planned("--budget 40% --effort 20000 --link 50GB/s");
  const Link link{50e9, 0};
  const Evaluation evaluation =
      evaluate(read_instance(path("g")).problem, plan_of(copied["plan"]), {.budget = copied["budget"], .link = link});
  ASSERT_TRUE(evaluation.ok) << evaluation.fault;
  EXPECT_LE(copied["overhead"], recomputed["overhead"]);
  EXPECT_GE(copied["gap_points"], -1e-9);
}

TEST_F(BenchPlan, SaysThatThereIsNoPlan) {
  generate("unet --layers 3");
  const Outcome outcome = bench_plan("--instance " + path("g") + " --budget 10 --json -");
  EXPECT_EQ(outcome.status, 1);
  const json found = json::parse(outcome.text);
  EXPECT_TRUE(found["plan"].is_null());
  EXPECT_TRUE(found["overhead"].is_null());
  EXPECT_TRUE(found["lower_bound_overhead"].is_null());
  EXPECT_FALSE(found["reason"].get<std::string>().empty());
}

TEST_F(BenchPlan, DamagedInstancesAreRefusedByTheNode) {
  std::ofstream(path("g"))
      << R"({"nodes": [{"id": 5, "cost_cpu": 1, "cost_ram": 1}], "links": [{"source": 5, "target": 5}]})";
  const Outcome outcome = bench_plan("--instance " + path("g"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("SF-E400 DataError"), HasSubstr("node 5"), HasSubstr("cycle")));
}

TEST_F(BenchPlan, OptionsThatAreNoneAreRefused) {
  generate("layered --operations 20");
  const std::string instance = "--instance " + path("g");
  for (const std::string arguments : {" --budget 5MiB", " --budget -3", " --budget nan", " --link 0", " --link 5GB",
                                      " --effort -1", " --generate gpt --out x", " --operations 5", " --batch 4"}) {
    EXPECT_EQ(bench_plan(instance + arguments).status, 2) << arguments;
  }
  EXPECT_EQ(bench_plan("--generate layered --operations 0 --out " + path("h")).status, 2);
  EXPECT_EQ(bench_plan("--generate layered --budget 50% --out " + path("h")).status, 2);
  EXPECT_FALSE(std::filesystem::exists(path("h")));
}

}  // namespace
}  // namespace sectionflow::planning

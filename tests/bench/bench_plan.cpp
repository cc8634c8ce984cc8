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
  for (const std::string arguments :
       {" --budget 5MiB", " --budget -3", " --budget nan", " --budget 0.5", " --budget 1e3", " --budget nan%",
        " --link 0", " --link 5GB/h", " --generate gpt --out x", " --seed -1"}) {
    EXPECT_EQ(bench_plan(instance + arguments).status, 2) << arguments;
  }
  for (const std::string effort : {"-1", "abc", "1e3"}) {
    EXPECT_THAT(bench_plan(instance + " --effort " + effort).text,
                HasSubstr("--effort: '" + effort + "'; wanted a whole number from 0 to 2^63-1"));
  }
  EXPECT_EQ(bench_plan("--generate layered --operations 0 --out " + path("h")).status, 2);
  EXPECT_FALSE(std::filesystem::exists(path("h")));
}

TEST_F(BenchPlan, OptionsThatSayNothingOfWhatIsAskedForAreRefused) {
  generate("layered --operations 20");
  const auto expect_of = [&](const std::string& arguments, const std::string& text) {
    const Outcome outcome = bench_plan(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_THAT(outcome.text, HasSubstr(text)) << arguments;
  };
  const std::string instance = "--instance " + path("g");
  for (const std::string option : {"--batch 4", "--width 4", "--classes 3", "--optimizer foo", "--bf16"}) {
    expect_of(instance + " " + option, option.substr(0, option.find(' ')) + " requires --model");
  }
  expect_of(instance + " --layers 4", "--layers requires --model or --generate gpt or --generate chain");
  expect_of(instance + " --operations 5", "--operations requires --generate layered");
  const std::string out = " --out " + path("h");
  expect_of("--generate chain --hidden 64" + out, "--hidden requires --generate gpt");
  expect_of("--generate layered --layers 4" + out, "--layers requires --model");
  expect_of("--generate layered --budget 50%" + out, "--budget requires --model or --instance");
  EXPECT_FALSE(std::filesystem::exists(path("h")));
  // All kinds take a seed, so that one command makes any of them.
  EXPECT_EQ(bench_plan("--generate gpt --layers 1 --seed 2" + out).status, 0);
}

TEST_F(BenchPlan, WordsThatAreNoneAreRefusedWithTheNearest) {
  EXPECT_THAT(bench_plan("--generate layerd --out x").text,
              HasSubstr("'layerd' is no kind of graph; did you mean 'layered'?; wanted gpt, layered, chain or unet"));
  EXPECT_THAT(bench_plan("--model mnist_ressnet").text,
              HasSubstr("--model: 'mnist_ressnet' is no model; did you mean 'mnist_resnet'?"));
}

TEST_F(BenchPlan, BudgetsOfModelsAreBytes) {
  const std::string model = "--model mnist_cnn --width 2 --batch 2 --effort 100 --json - --budget ";
  EXPECT_EQ(json::parse(bench_plan(model + "2GiB").text)["budget"], std::int64_t{2} << 30);
  EXPECT_THAT(bench_plan(model + "50").text, HasSubstr("did you mean 50MiB"));
  EXPECT_THAT(bench_plan(model + "0.5").text, HasSubstr("SF-E010"));
}

TEST_F(BenchPlan, WhatIsReadIsNotWrittenOver) {
  generate("layered --operations 20");
  const std::string before = bytes_of_file(path("g"));
  const Outcome outcome = bench_plan("--instance " + path("g") + " --json " + path("g"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text, HasSubstr("is that of --instance too"));
  EXPECT_EQ(bytes_of_file(path("g")), before);
}

}  // namespace
}  // namespace sectionflow::planning

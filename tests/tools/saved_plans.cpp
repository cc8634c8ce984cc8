// Plans of `sectionflow` in files and checkpoints: who makes them, and who takes them.

#include <filesystem>
#include <string>

#include "tests/support/temporary_folder.h"
#include "tests/tools/run_tool.h"

namespace sectionflow::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A network that is to be planned in less than it takes, quickly.
const std::string kTight = " --model mnist_cnn --width 4 --batch 64 --threads 1";

TEST(SavedPlans, OfOneProcessAreTakenByAnother) {
  const TemporaryFolder folder;
  const std::string plan = (folder.path() / "plans" / "step.plan").string();
  const nlohmann::json planned =
      json_of_tool("plan" + kTight + " --device-memory 60% --strategy auto:swap --save-plan " + plan);
  ASSERT_TRUE(std::filesystem::exists(plan));
  const std::string compare = "compare --strategies auto --steps 2 --device-memory 60% --plan " + plan + kTight;
  const nlohmann::json row = json_of_tool(compare)["strategies"][0];
  EXPECT_EQ(row["name"], "auto");
  EXPECT_EQ(row["planned_peak_bytes"], planned["plan"]["planned_peak_bytes"]);
  EXPECT_EQ(row["measured_peak_bytes"], row["planned_peak_bytes"]);
  EXPECT_GT(row["bytes_out"], 0);
  EXPECT_EQ(row["identical"], true);
  const nlohmann::json inspected = json_of_tool("inspect " + plan);
  EXPECT_EQ(inspected.at("kind"), "plan");
  ASSERT_EQ(inspected.at("programs").size(), 1U);
  EXPECT_EQ(inspected.at("programs")[0].at("device_peak_bytes"), row["planned_peak_bytes"]);
  EXPECT_THAT(run_tool("inspect " + plan).text, HasSubstr("by a nominal profile"));
  expect_refused(
      "compare --strategies auto --steps 2 --batch 64 --model mnist_cnn --width 3 --threads 1 --plan " + plan,
      AllOf(HasSubstr("SF-E102"), HasSubstr("the plan is of a model with"), HasSubstr("leave --plan out")));
}

TEST(SavedPlans, AreForStrategiesThatSearch) {
  const TemporaryFolder folder;
  const std::string plan = (folder.path() / "step.plan").string();
  expect_refused("plan --strategy whole --save-plan " + plan + kTight, HasSubstr("take the strategy auto"));
  expect_refused("train --data synthetic --strategy sections:2 --plan " + plan + kTight,
                 HasSubstr("take the strategy auto"));
  expect_refused("compare --strategies auto --plan " + plan + kTight, HasSubstr(plan));
  folder.file("step.plan", "{}");
  expect_refused("compare --strategies whole,swap --plan " + plan + kTight, HasSubstr("SF-E102"));
  expect_refused("train --data synthetic --strategy auto --plan " + plan + kTight, HasSubstr("SF-E102"));
  expect_refused("compare --strategies auto --max-batch --plan " + plan + kTight, HasSubstr("--max-batch"));
  // What does not fit has no plan.
  const Outcome misfit = run_tool("plan --strategy auto --device-memory 1KiB --save-plan " + plan + kTight);
  EXPECT_EQ(misfit.status, 1);
  EXPECT_THAT(misfit.text, HasSubstr("--save-plan: nothing is written to '" + plan + "'"));
  EXPECT_EQ(bytes_of_file(plan), "{}");
}

TEST(SavedPlans, OfATrainingAreWrittenWhereThereIsNoneAndTakenWhereItGoesOn) {
  const TemporaryFolder folder;
  const std::string at = folder.path().string(), plan = at + "/plans/step.plan";
  const std::string train = "train --data synthetic --strategy auto:swap --device-memory 7200KiB --resume --plan " +
                            plan + " --checkpoints " + at + "/run" + kTight + " --steps ";
  const Outcome first = run_tool(train + "2");
  EXPECT_EQ(first.status, 0) << first.text;
  EXPECT_THAT(first.text, HasSubstr("swapped"));
  const std::string saved = bytes_of_file(plan);
  EXPECT_THAT(saved, HasSubstr("\"sectionflow-plan\""));
  const Outcome then = run_tool(train + "4");
  EXPECT_EQ(then.status, 0) << then.text;
  EXPECT_THAT(then.text, AllOf(HasSubstr("goes on from step 2"), HasSubstr("swapped"), Not(HasSubstr("searched for"))));
  EXPECT_THAT(then.text, AllOf(HasSubstr("--plan: '" + plan + "' goes before any other plan"),
                               HasSubstr("is gone on by where the plan that was given has nothing"),
                               Not(HasSubstr("plan --metrics"))));
  EXPECT_EQ(bytes_of_file(plan), saved);
}

TEST(SavedPlans, AreThoseOfATrainingWhereTheyAreMadeWithMetrics) {
  const TemporaryFolder folder;
  const std::string plan = (folder.path() / "step.plan").string();
  const std::string options = " --strategy auto:swap --device-memory 7200KiB" + kTight;
  const std::string make = "plan --save-plan " + plan + options;
  const std::string train = "train --data synthetic --steps 1 --plan " + plan + options;
  ASSERT_EQ(run_tool(make).status, 0);
  EXPECT_THAT(run_tool(train).text,
              AllOf(HasSubstr("which sectionflow plan --metrics plans"), HasSubstr("searched for")));
  ASSERT_EQ(run_tool(make + " --metrics").status, 0);
  EXPECT_THAT(run_tool(train).text,
              AllOf(HasSubstr("swapped"), Not(HasSubstr("plan --metrics")), Not(HasSubstr("searched for"))));
}

TEST(SavedPlans, AreSearchedForByAsManyChangesAsAreAskedFor) {
  const std::string plan = "plan --device-memory 60%" + kTight + " --effort ";
  EXPECT_TRUE(json_of_tool(plan + "50 --strategy auto:swap").at("fits").get<bool>());
  expect_refused(plan + "-1", HasSubstr("--effort: '-1'; wanted a whole number from 0 to 2^63-1"));
  for (const std::string& refused :
       {plan + "9", "train --data synthetic --effort 9" + kTight, "compare --effort 9 --strategies whole" + kTight}) {
    expect_refused(refused, AllOf(HasSubstr("--effort"), HasSubstr("take the strategy auto")));
  }
}

TEST(SavedPlans, OfACheckpointAreTakenWhereTheTrainingGoesOn) {
  const TemporaryFolder folder;
  const std::string at = folder.path().string();
  const std::string train = "train --data synthetic --strategy auto:swap --device-memory 7200KiB --resume" + kTight;
  const std::string first = train + " --checkpoints " + at + "/run --steps ";
  ASSERT_EQ(run_tool(first + "2").status, 0);
  EXPECT_EQ(inspected(folder.path() / "run" / "step-2").at("kept"), nlohmann::json({"plan"}));
  EXPECT_THAT(run_tool("inspect " + at + "/run").text, HasSubstr("kept besides: plan"));
  const Outcome then = run_tool(first + "4 --replan");
  EXPECT_EQ(then.status, 0) << then.text;
  EXPECT_THAT(then.text, AllOf(HasSubstr("goes on from step 2"), HasSubstr("run/step-2' is gone on by"),
                               HasSubstr("swapped"), Not(HasSubstr("searched for"))));
  ASSERT_EQ(run_tool(train + " --checkpoints " + at + "/whole --steps 4").status, 0);
  EXPECT_EQ(bytes_of_file(folder.path() / "run" / "step-4" / "variables.safetensors"),
            bytes_of_file(folder.path() / "whole" / "step-4" / "variables.safetensors"));
}

TEST(SavedPlans, AreComparedByOneStrategyThatSearches) {
  const TemporaryFolder folder;
  const std::string plan = (folder.path() / "step.plan").string();
  ASSERT_EQ(run_tool("plan" + kTight + " --device-memory 60% --strategy auto:swap --save-plan " + plan).status, 0);
  const std::string compare = "compare --steps 2 --device-memory 60% --plan " + plan + kTight + " --strategies ";
  expect_refused(compare + "whole,swap", AllOf(HasSubstr("--plan is of plans that are searched for, and whole, swap"),
                                               HasSubstr("take the strategy auto")));
  expect_refused(compare + "auto,auto:swap,whole",
                 AllOf(HasSubstr("--plan is of one strategy, and 2 of --strategies would run by it"),
                       HasSubstr("one of auto, auto:recompute, auto:swap and auto:unsplit")));
  EXPECT_EQ(run_tool(compare + "auto:swap,whole").status, 0);
}

/// Runs a training in the background and changes the file of --plan as soon as it is there.
Outcome train_while_replaced(const std::string& arguments, const std::string& plan, const std::string& by) {
  return run_shell("(" + std::string(SF_TOOL) + " train " + arguments + " --plan " + plan + " 2>&1) & child=$!; " +
                   "while [ ! -e " + plan + " ] && kill -0 $child 2>/dev/null; do :; done; " + by + "; wait $child");
}

TEST(SavedPlans, TakeThePlaceOfNothingThatSomebodyHasPutThere) {
  const TemporaryFolder folder;
  const std::string plan = (folder.path() / "step.plan").string();
  const std::string other = folder.file("mine", "mine").string();
  const Outcome trained =
      train_while_replaced("--data synthetic --strategy auto:swap --device-memory 7200KiB --steps 60" + kTight, plan,
                           "mv " + other + " " + plan);
  EXPECT_EQ(trained.status, 0) << trained.text;
  EXPECT_THAT(trained.text, AllOf(HasSubstr("--plan: the training goes on without the file"), HasSubstr("is no plan")));
  EXPECT_EQ(bytes_of_file(plan), "mine");
}

TEST(SavedPlans, AreMadeAgainOfStrategiesThatSearch) {
  expect_refused("train --data synthetic --strategy sections:2 --replan" + kTight,
                 AllOf(HasSubstr("--replan"), HasSubstr("take the strategy auto")));
}

}  // namespace
}  // namespace sectionflow::tools

// Signals while a plan is searched for.

#include "tests/support/temporary_folder.h"
#include "tests/tools/run_tool.h"

namespace sectionflow::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// The program, which gets SIGTERM once it has said that it searches. A shell has those that it puts beside itself
/// ignore SIGINT.
Outcome stopped(const std::string& arguments, const std::string& log) {
  return run_shell(std::string(SF_TOOL) + " " + arguments + " >" + log +
                   " 2>&1 & pid=$!; while ! grep -q 'budgets searched' " + log +
                   " && kill -0 $pid; do sleep 0.02; done; kill -TERM $pid; wait $pid; status=$?; cat " + log +
                   "; exit $status");
}

// An effort whose end nobody would see.
const std::string kEndless =
    " --model mnist_resnet --batch 8 --threads 1 --strategy auto:recompute --effort 1000000000000 --device-memory ";

TEST(StoppedPlanning, OfPlanEndsByItsErrorAndWritesNothing) {
  const TemporaryFolder folder;
  const std::string plan = (folder.path() / "plan").string(), json = (folder.path() / "json").string();
  const Outcome outcome =
      stopped("plan" + kEndless + "70% --save-plan " + plan + " --json " + json, (folder.path() / "log").string());
  EXPECT_EQ(outcome.status, 128 + 15) << outcome.text;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("SF-E103 StoppedError"), HasSubstr("--effort")));
  EXPECT_FALSE(std::filesystem::exists(plan));
  EXPECT_FALSE(std::filesystem::exists(json));
}

TEST(StoppedPlanning, OfTheSmallestBudgetTellsThePlanWithoutIt) {
  const TemporaryFolder folder;
  const std::string json = (folder.path() / "json").string();
  const Outcome outcome = stopped("plan" + kEndless + "1GiB --json " + json, (folder.path() / "log").string());
  EXPECT_EQ(outcome.status, 128 + 15) << outcome.text;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("fits the budget"), HasSubstr("smallest budget was stopped (SF-E103)"),
                                  testing::Not(HasSubstr("smallest budget of device memory"))));
  EXPECT_TRUE(std::filesystem::exists(json));
}

TEST(StoppedPlanning, OfWhatExplainsTellsAndSavesThePlanWithoutIt) {
  const TemporaryFolder folder;
  const std::string json = (folder.path() / "json").string();
  const Outcome outcome =
      stopped("plan" + kEndless + "1GiB --explain --frontier 4 --json " + json, (folder.path() / "log").string());
  EXPECT_EQ(outcome.status, 128 + 15) << outcome.text;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("fits the budget"), HasSubstr("--frontier, and the smallest budget, was")));
  EXPECT_TRUE(std::filesystem::exists(json));
}

TEST(StoppedPlanning, OfATrainingEndsItAndLeavesNoCheckpoint) {
  const TemporaryFolder folder;
  const std::string run = (folder.path() / "run").string(), plan = (folder.path() / "plan").string();
  const Outcome outcome = stopped("train --steps 2" + kEndless + "70% --plan " + plan + " --checkpoints " + run,
                                  (folder.path() / "log").string());
  EXPECT_EQ(outcome.status, 128 + 15) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("SF-E103 StoppedError"));
  EXPECT_FALSE(std::filesystem::exists(plan));
  EXPECT_FALSE(std::filesystem::exists(run + "/latest"));
}

}  // namespace
}  // namespace sectionflow::tools

// What `sectionflow` says where device memory is too small: what would do, of which batch.

#include <regex>
#include <string>

#include "tests/tools/run_tool.h"

namespace sectionflow::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// The device memory that a refusal names, "4096B"; empty where it names none.
std::string minimum_of(const std::string& text) {
  static const std::regex minimum(R"(minimum: --device-memory of (at least )?(\d+) bytes)");
  std::smatch found;
  return std::regex_search(text, found, minimum) ? found[2].str() + "B" : "";
}

/// That a training which is refused runs in the memory that the refusal names. Returns that.
std::string expect_told_minimum_does(const std::string& training, const std::string& device_memory) {
  SCOPED_TRACE(training + " in " + device_memory);
  const std::string train = "train --data synthetic --steps 1 --threads 1 " + training + " --device-memory ";
  const Outcome refused = run_tool(train + device_memory);
  EXPECT_EQ(refused.status, 2) << refused.text;
  const std::string minimum = minimum_of(refused.text);
  EXPECT_FALSE(minimum.empty()) << refused.text;
  const Outcome trained = run_tool(train + minimum);
  EXPECT_EQ(trained.status, 0) << refused.text << trained.text;
  return minimum;
}

TEST(Refusals, OfATrainingNameAMemoryThatDoes) {
  for (const std::string strategy :
       {"whole", "swap", "auto", "auto:recompute", "sections:2", "sections:blocks", "sections+swap:2"}) {
    const std::string training = "--model mnist_cnn --width 4 --batch 16 --strategy " + strategy;
    const std::string minimum = expect_told_minimum_does(training, "4KiB");
    EXPECT_EQ(expect_told_minimum_does(training, "100KiB"), minimum);
  }
}

TEST(Refusals, OfOtherModelsNameAMemoryThatDoes) {
  expect_told_minimum_does(
      "--model gpt --layers 1 --width 16 --heads 2 --sequence 16 --vocabulary 64 --batch 4 "
      "--strategy auto --effort 1000",
      "20KiB");
  expect_told_minimum_does("--model mnist_resnet --batch 4 --strategy sections:4", "100KiB");
  expect_told_minimum_does("--model mnist_resnet --batch 4 --strategy auto:swap", "100KiB");
}

TEST(Refusals, TellTheBatch) {
  EXPECT_THAT(run_tool("train --model mnist_cnn --width 4 --batch 16 --device-memory 4KiB").text,
              HasSubstr("asked:   --batch 16"));
}

TEST(Plan, WithMetricsNamesAMemoryThatDoesForATrainingWhereNoBatchIsSaid) {
  const std::string options = " --model mnist_cnn --width 2 --threads 1 --strategy auto:swap";
  const nlohmann::json planned = json_of_tool("plan --metrics --device-memory 1KiB" + options, 1);
  EXPECT_EQ(planned.at("batch"), 100);
  const std::string smallest = planned.at("smallest_budget_bytes").dump();
  const Outcome trained = run_tool("train --data synthetic --steps 1 --device-memory " + smallest + "B" + options);
  EXPECT_EQ(trained.status, 0) << trained.text;
}

TEST(Plan, OfTheLossAloneSaysThatATrainingMayTakeMore) {
  const std::string plan = "plan --model mnist_cnn --width 4 --batch 8";
  EXPECT_THAT(
      run_tool(plan).text,
      HasSubstr("bytes); --metrics tells that of train, which tells the accuracy too where a model has logits\n"));
  EXPECT_THAT(run_tool(plan + " --metrics").text,
              AllOf(HasSubstr("smallest budget"), Not(HasSubstr("--metrics tells that"))));
}

}  // namespace
}  // namespace sectionflow::tools

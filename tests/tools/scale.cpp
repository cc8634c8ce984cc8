// `sectionflow scale`: a training step on so many ranks, on paper.

#include <filesystem>

#include "swap/profile.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/run_tool.h"

namespace sectionflow::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kRankedSteps = "scale --model mnist_resnet --batch 4 --threads 1";

TEST(ScaleCommand, OneRankCommunicatesNothingAndMoreSendWhatARingSends) {
  const auto json = json_of_tool(kRankedSteps + " --ranks 1,2,4,...,64 --rank-link 1GB/s --reduction ring");
  const auto& steps = json["steps"];
  ASSERT_EQ(steps.size(), 7U);
  EXPECT_EQ(steps[0]["communicate_seconds"], 0);
  EXPECT_EQ(steps[0]["bytes_sent"], 0);
  EXPECT_EQ(steps[0]["efficiency"], 1);
  // What is gathered of 2 ranks is half a rank's; sums are by far the most.
  const double alone = steps[1]["bytes_sent"].get<double>();
  for (const auto& step : steps) {
    const int ranks = step["ranks"];
    if (ranks == 1) continue;
    EXPECT_GE(step["bytes_sent"].get<double>(), 2.0 * (ranks - 1) / ranks * 0.95 * alone) << ranks;
    EXPECT_EQ(step["compute_seconds"], steps[0]["compute_seconds"]);
    EXPECT_NEAR(step["step_seconds"].get<double>() - step["exposed_seconds"].get<double>(),
                steps[0]["step_seconds"].get<double>(), 1e-9);
  }
  EXPECT_GT(json["gradient_bytes_held"], 0);
  EXPECT_LT(json["gradient_bytes_held"], json["bytes_communicated"]);
}

TEST(ScaleCommand, SaysWhatBinds) {
  const auto bound_of = [](const std::string& network) {
    return json_of_tool(kRankedSteps + " --ranks 16 --reduction ring " + network)["steps"][0]["bound"]
        .get<std::string>();
  };
  EXPECT_EQ(bound_of("--rank-link 100GB/s"), "compute");
  EXPECT_EQ(bound_of("--rank-link 1MB/s"), "link");
  EXPECT_EQ(bound_of("--rank-link 100GB/s --rank-latency-us 5000"), "latency");
}

TEST(ScaleCommand, ShowsATable) {
  const Outcome outcome = run_tool(kRankedSteps +
                                   " --ranks 2,8 --rank-link 1GB/s --ranks-per-machine 4 --machine-link 10GB/s "
                                   "--reduction hierarchical");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("of one rank's speed"), HasSubstr("bound by"), HasSubstr("in common"),
                                  HasSubstr("peak with 2 ranks")));
}

TEST(ScaleCommand, RefusesWhatMeansNothing) {
  expect_refused(kRankedSteps + " --ranks 1,3,...,10", HasSubstr("10 is not among the numbers that '...' comes to"));
  expect_refused(kRankedSteps + " --ranks ...,4", HasSubstr("goes on by the factor of the two numbers before it"));
  expect_refused(kRankedSteps + " --ranks 2,many", HasSubstr("wanted 1,2,8 or 1,2,4,...,4096"));
  expect_refused(kRankedSteps + " --reduction rong", HasSubstr("did you mean 'ring'?"));
  expect_refused(kRankedSteps + " --rank-link fast", HasSubstr("fast"));
  expect_refused(kRankedSteps + " --ranks-per-machine 4", HasSubstr("add --machine-link"));
  expect_refused("plan --graph x.json --ranks 2", HasSubstr("--ranks is of models"));
}

}  // namespace
}  // namespace sectionflow::tools

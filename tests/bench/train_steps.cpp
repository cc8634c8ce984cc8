// bench_train_steps by several ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "tests/support/run_shell.h"

namespace sectionflow {
namespace {

using testing::HasSubstr;

const std::string kSmall = " --model mnist_resnet --batch 2 --threads 1 --cut blocks";

Outcome run_steps(const std::string& arguments, const std::string& launcher = "") {
  return run_shell(text_of(launcher, " '", SF_BENCH_TRAIN_STEPS, "'", kSmall, " ", arguments));
}

void expect_exact_ranks(const Outcome& outcome, std::size_t ranks) {
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const auto report = nlohmann::json::parse(outcome.text);
  ASSERT_EQ(report["by_rank"].size(), ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto& row = report["by_rank"][rank];
    EXPECT_EQ(row["rank"], rank);
    EXPECT_EQ(row["planned_peak_bytes"], row["measured_peak_bytes"]);
    EXPECT_GT(row["bytes_communicated"], 0);
    EXPECT_EQ(row["variables"], report["by_rank"][0]["variables"]);
  }
}

TEST(TrainStepsOfRanks, AsThreadsHaveThePlannedPeakAndTheSameVariables) {
  expect_exact_ranks(run_steps("--ranks 2 --rank-link 1GB/s --steps 1 --json -"), 2);
}

TEST(TrainStepsOfRanks, AsProcessesHaveThePlannedPeakAndTheSameVariables) {
#if defined(SF_MPIRUN)
  const std::string launcher =
      text_of("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_pml=ob1 ",
              "OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo '", SF_MPIRUN, "' --oversubscribe -n 2 ");
  expect_exact_ranks(run_steps("--ranks mpi --steps 1 --json -", launcher), 2);
#else
  GTEST_SKIP() << "built without MPI: scripts/setup.sh installs Open MPI";
#endif
}

TEST(TrainStepsOfRanks, TakeCommandsAsOne) {
  const Outcome outcome =
      run_shell(text_of("printf 'step\\nmeasure\\nquit\\n' | '", SF_BENCH_TRAIN_STEPS, "'", kSmall, " --ranks 2"));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.text, HasSubstr("\"ranks\":2"));
  EXPECT_THAT(outcome.text, HasSubstr("\"loss\":"));
  EXPECT_THAT(outcome.text, HasSubstr("\"measured_peak_bytes\":"));
}

TEST(TrainStepsOfRanks, RefuseWhatMeansNothing) {
  const auto expect_refused = [](const std::string& arguments, const std::string& why) {
    const Outcome outcome = run_steps(arguments + " 2>&1");
    EXPECT_EQ(outcome.status, 2) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr(why));
  };
  expect_refused("--rank-link 1GB/s --steps 1", "--rank-link is of ranks, and there are none");
  expect_refused("--ranks many", "wanted mpi, or threads of this process");
  expect_refused("--ranks mpi", "--ranks mpi takes no commands");
  expect_refused("--steps 1 --json -", "--json is what ranks are measured to");
  expect_refused("--ranks 2 --rank-link fast --steps 1", "does not begin with a number");
}

}  // namespace
}  // namespace sectionflow

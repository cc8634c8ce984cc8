// Ranks that are processes: tests/comm/ranks, started by mpirun over the loopback.

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "comm/mpi_module.h"
#include "tests/comm/rank_threads.h"
#include "tests/support/run_shell.h"

namespace sectionflow::comm_tests {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

/// Sets an environment variable while it lives.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Setting() { unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

TEST(MpiCommunicator, SaysWhatIsMissing) {
  const auto error_of = [](ErrorCode code) {
    try {
      (void)mpi_communicator();
    } catch (const CommunicationError& error) {
      EXPECT_EQ(error.code(), code);
      return std::string(error.what());
    }
    return std::string("none");
  };
  {
    const Setting elsewhere("SECTIONFLOW_MPI_LIBRARY", "no/libsectionflow_mpi.so");
    EXPECT_THAT(error_of(ErrorCode::no_ranks),
                AllOf(HasSubstr("SF-E513 CommunicationError: mpi: the part of the library for MPI cannot be loaded:"),
                      HasSubstr("no/libsectionflow_mpi.so"), HasSubstr("-DSECTIONFLOW_MPI=ON")));
  }
#if defined(SF_MPIRUN)
  // The next attempt loads it; no launcher has started this process.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"}) unsetenv(name);
  EXPECT_THAT(error_of(ErrorCode::no_ranks),
              AllOf(HasSubstr("no launcher has started this process as a rank"), HasSubstr("mpirun -n 2 program")));
#endif
  EXPECT_THAT([] { (void)mpi_communicator({.link_bytes_per_second = -1}); },
              ThrowsMessage<ArgumentError>(HasSubstr("link_bytes_per_second is -1")));
}

TEST(MpiCommunicator, ThatIsRefusedOrThereAlreadyIsSaid) {
  static std::unique_ptr<Transport> next;
  static const MpiModule fake = {
      [](std::chrono::milliseconds, CommunicationFailure& refusal) -> std::unique_ptr<Transport> {
        refusal = {0, ErrorCode::communication, "not all ranks have come within 5 ms"};
        return nullptr;
      }};
  set_mpi_module(&fake);
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_THAT([] { (void)mpi_communicator(); },
                ThrowsMessage<CommunicationError>(
                    HasSubstr("SF-E510 CommunicationError: mpi: not all ranks have come within 5 ms")));
  }
  set_mpi_module(nullptr);
}

#if defined(SF_MPIRUN)

TEST(MpiModule, TheSharedObjectNeedsNothingOfTheProgram) {
  void* library = dlopen(SF_MPI_BUILD_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto entry = reinterpret_cast<MpiModuleEntry>(dlsym(library, kMpiModuleEntry));
  ASSERT_NE(entry, nullptr);
  MpiModule module;
  entry(module);
  EXPECT_NE(module.make_transport, nullptr);
}

/// Starts ranks in a mode of comm_ranks, or of another program.
Outcome run_processes(int ranks, const std::string& mode, const std::string& program = SF_COMM_RANKS) {
  // Root is what containers run tests as. No network but the loopback, and no device of one.
  return run_shell(text_of("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_pml=ob1 ",
                           "OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo timeout -s KILL 40 '",
                           SF_MPIRUN, "' --oversubscribe -n ", ranks, " '", program, "' ", mode, " 2>&1"));
}

std::string line_of(int rank, const Outcome& outcome) {
  const std::string head = text_of("rank ", rank, ": ");
  std::string line;
  for (std::size_t begin = 0; begin < outcome.text.size();) {
    const std::size_t end = std::min(outcome.text.find('\n', begin), outcome.text.size());
    if (outcome.text.compare(begin, head.size(), head) == 0) line = outcome.text.substr(begin, end - begin);
    begin = end + 1;
  }
  return line.empty() ? "no line of rank " + std::to_string(rank) + " in:\n" + outcome.text : line;
}

class MpiRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(, MpiRanks, testing::Values(2, 3, 4));

TEST_P(MpiRanks, GiveTheSumsOfAPlainLoop) {
  const int ranks = GetParam();
  const Outcome outcome = run_processes(ranks, "calls");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr(text_of("rank 0: ", ranks, " ranks by MPI (")));
  const int trials = 5 * (ranks + 2);
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_THAT(line_of(rank, outcome), HasSubstr(text_of(trials, " of ", trials, " exact")));
  }
}

TEST(MpiRanksThat, MakeDifferentCallsEndWithErrorsThatNameBoth) {
  const Outcome outcome = run_processes(3, "other_calls");
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(line_of(rank, outcome), AllOf(HasSubstr("SF-E511"), HasSubstr("call 2, barrier"),
                                              HasSubstr("call 2, all_reduce_sum of 1000 f32")));
  }
}

TEST(MpiRanksThat, GiveDifferentTextsEndWithErrorsThatShowBothLines) {
  const Outcome outcome = run_processes(3, "differ");
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(line_of(rank, outcome),
                HasSubstr("the plan of rank 1 is another than rank 0's: line 2 is 'b', rank 0's 'c'"));
  }
}

TEST(MpiRanksThat, HangAreFoundByTheDeadline) {
  for (const std::string mode : {"hang", "hang_amid_bytes"}) {
    const Outcome outcome = run_processes(3, mode);
    EXPECT_NE(outcome.status, 0) << outcome.text;
    for (const int rank : {0, 2}) {
      EXPECT_THAT(line_of(rank, outcome),
                  AllOf(HasSubstr("SF-E510"), HasSubstr("all_reduce_sum"), HasSubstr("has not come within 1000 ms")));
    }
  }
}

TEST(MpiRanksThat, DieAmidALargeSendEndTheJob) {
  const Outcome outcome = run_processes(2, "die");
  EXPECT_NE(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, Not(HasSubstr("the sum is there")));
}

TEST(MpiRanksThat, FailEndTheOthersWithTheirText) {
  const Outcome outcome = run_processes(3, "fail");
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(line_of(rank, outcome), AllOf(HasSubstr("SF-E510"), HasSubstr("has failed: the disk is full")));
  }
}

TEST(MpiRanksThat, LeaveEndTheCallsThatNeedThem) {
  const Outcome outcome = run_processes(3, "leave");
  for (const int rank : {0, 2}) {
    EXPECT_THAT(line_of(rank, outcome), AllOf(HasSubstr("SF-E510"), HasSubstr("call 2, barrier"),
                                              HasSubstr("rank 1 has left: its communicator is gone")));
  }
}

// ---- Programs that begin and end MPI by themselves.

TEST(MpiRanksThat, EndMpiWhileTheyHaveACommunicatorEndWell) {
  const Outcome outcome = run_processes(2, "end_first", SF_PROGRAM_OF_MPI);
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  for (const int rank : {0, 1}) EXPECT_THAT(line_of(rank, outcome), HasSubstr("has ended MPI"));
}

TEST(MpiRanksThat, GoOnWithMpiGetBackWhatACommunicatorTook) {
  const Outcome outcome = run_processes(2, "let_go", SF_PROGRAM_OF_MPI);
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  for (const int rank : {0, 1}) EXPECT_THAT(line_of(rank, outcome), HasSubstr("2 of 2 freed"));
}

TEST(MpiRanksThat, HaveGivenUpOnOthersMayTryAgain) {
  const Outcome outcome = run_processes(2, "try_again", SF_PROGRAM_OF_MPI);
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("SF-E510 CommunicationError: mpi: not all ranks have come within 1 ms"));
  for (const int rank : {0, 1}) EXPECT_THAT(line_of(rank, outcome), HasSubstr("2 ranks by MPI ("));
}

#else

TEST(MpiRanks, AreTestedWhereMpiIs) {
  GTEST_SKIP() << "built without MPI: scripts/setup.sh installs Open MPI";
}

#endif

}  // namespace
}  // namespace sectionflow::comm_tests

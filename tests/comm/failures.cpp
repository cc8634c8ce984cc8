// Ranks that do otherwise than the others, hang, leave or fail end the calls of all with an error that says so.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/comm/rank_threads.h"

namespace sectionflow::comm_tests {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;

using Body = std::function<void(Communicator&)>;

void sum(Communicator& communicator, std::int64_t elements, bool has_start = false) {
  std::vector<float> x(static_cast<std::size_t>(elements)), start = x, result = x;
  std::vector<std::byte> workspace(Communicator::reduce_workspace(elements, communicator.size()));
  communicator.all_reduce_sum(x.data(), has_start ? start.data() : nullptr, result.data(), elements, workspace.data());
}

TEST(DifferentCalls, EndOnEveryRankWithAnErrorThatNamesBoth) {
  std::vector<std::byte> bytes(100);
  struct Case {
    Body call;
    std::string text;
  };
  const std::vector<Case> cases = {
      {[](Communicator& it) { it.barrier(); }, "call 2, barrier"},
      {[](Communicator& it) {
         std::vector<std::byte> own(100);
         it.broadcast(own, 0);
       },
       "call 2, broadcast of 100 bytes of rank 0"},
      {[](Communicator& it) {
         std::vector<std::byte> own(100);
         it.broadcast(own, 1);
       },
       "call 2, broadcast of 100 bytes of rank 1"},
      {[](Communicator& it) {
         std::vector<std::byte> own(101);
         it.broadcast(own, 1);
       },
       "call 2, broadcast of 101 bytes of rank 1"},
      {[](Communicator& it) { sum(it, 100); }, "call 2, all_reduce_sum of 100 f32"},
      {[](Communicator& it) { sum(it, 101); }, "call 2, all_reduce_sum of 101 f32"},
      {[](Communicator& it) { sum(it, 100, true); }, "call 2, all_reduce_sum of 100 f32 onto a start"},
      {[](Communicator& it) { it.expect_same("a", "b"); }, "call 2, expect_same"},
  };
  for (const int ranks : {2, 3}) {
    for (std::size_t a = 0; a < cases.size(); ++a) {
      const std::size_t b = (a + 1) % cases.size();
      const Ends ends = run_ranks(ranks, [&](Communicator& communicator) {
        communicator.barrier();
        cases[communicator.rank() == ranks - 1 ? b : a].call(communicator);
      });
      EXPECT_THAT(ends, Each(AllOf(HasSubstr("SF-E511 CommunicationError: rank "), HasSubstr(cases[a].text),
                                   HasSubstr(cases[b].text), HasSubstr("hint:"))));
    }
  }
}

TEST(DifferentCalls, MoveNoByte) {
  const Ends ends = run_ranks(2, [](Communicator& communicator) {
    std::vector<std::byte> bytes(100, static_cast<std::byte>(communicator.rank()));
    try {
      communicator.broadcast(std::span(bytes).first(communicator.rank() == 0 ? 100 : 99), 0);
    } catch (const CommunicationError&) {
      EXPECT_EQ(bytes, std::vector<std::byte>(100, static_cast<std::byte>(communicator.rank())));
      throw;
    }
  });
  EXPECT_THAT(ends, Each(HasSubstr("SF-E511")));
}

TEST(Deadline, EndsTheWaitForARankThatDoesNotCome) {
  auto communicators = in_process_communicators(3, {.deadline = 1ms});
  const auto absent = communicators[1];
  communicators.erase(communicators.begin() + 1);
  const Ends ends = run_ranks(communicators, [](Communicator& communicator) { communicator.barrier(); });
  EXPECT_THAT(
      ends, Each(AllOf(HasSubstr("SF-E510 CommunicationError: rank "), HasSubstr(" of 3 in call 1, barrier: rank "),
                       HasSubstr("has not come within 1 ms"), AnyOf(HasSubstr("deadline"), HasSubstr("has failed")))));
  // The one that comes late, and every later call, fail at once.
  const Ends late = run_ranks({absent, communicators[0]}, [](Communicator& communicator) { sum(communicator, 10); });
  EXPECT_THAT(late, Each(AllOf(HasSubstr("all_reduce_sum of 10 f32: "), HasSubstr("has failed: rank "),
                               HasSubstr("has not come within 1 ms"))));
}

TEST(Leaving, EndsTheCallsThatNeedTheRankThatHasLeftAndNoOthers) {
  const Ends ends = run_ranks(3, [](Communicator& communicator) {
    communicator.barrier();
    if (communicator.rank() == 2) return;
    communicator.barrier();
  });
  EXPECT_EQ(ends[2], "");
  for (const std::string& end : {ends[0], ends[1]}) {
    EXPECT_THAT(end, AllOf(HasSubstr("SF-E510"), HasSubstr("call 2, barrier: "),
                           HasSubstr("rank 2 has left: its communicator is gone")));
  }
  // Ranks that end one after the other after their last call disturb nobody.
  for (int trial = 0; trial < 50; ++trial) {
    EXPECT_EQ(run_ranks(4, [](Communicator& communicator) { sum(communicator, 100); }), Ends(4));
  }
}

TEST(Fail, EndsTheCallsOfAllWithItsText) {
  const Ends ends = run_ranks(3, [](Communicator& communicator) {
    communicator.barrier();
    if (communicator.rank() == 1) {
      communicator.fail("the disk is full");
      communicator.fail("a second reason");
    }
    communicator.barrier();
  });
  EXPECT_THAT(ends, Each(AllOf(HasSubstr("SF-E510"), HasSubstr(", barrier: "),
                               HasSubstr(" has failed: the disk is full"), HasSubstr("hint:"))));
  EXPECT_THAT(ends[1], HasSubstr("this rank has failed"));
  EXPECT_THAT(ends[0], HasSubstr("rank 1 has failed"));
}

TEST(Fail, OfAnotherThreadEndsACallInTheMiddleOfALargeTransfer) {
  // The link would take hours.
  const CommunicatorOptions slow = {.link_bytes_per_second = 1000};
  for (const std::size_t failing : {0, 1}) {
    auto communicators = in_process_communicators(2, slow);
    std::thread other([failing = communicators[failing]] {
      std::this_thread::sleep_for(20ms);
      failing->fail("out of memory");
    });
    const Ends ends = run_ranks(communicators, [](Communicator& communicator) { sum(communicator, 4'000'000); });
    other.join();
    EXPECT_THAT(ends, Each(AllOf(HasSubstr("SF-E510"), HasSubstr("has failed: out of memory"))));
  }
}

TEST(Fail, AmidTransfersAtAnyTimeEndsAllRanks) {
  for (int trial = 0; trial < 40; ++trial) {
    auto communicators = in_process_communicators(3);
    std::thread other([failing = communicators[static_cast<std::size_t>(trial % 3)], trial] {
      std::this_thread::sleep_for(std::chrono::microseconds(trial * 50));
      failing->fail("stop");
    });
    const Ends ends = run_ranks(communicators, [](Communicator& communicator) {
      while (true) sum(communicator, 100'000);
    });
    other.join();
    EXPECT_THAT(ends, Each(AllOf(HasSubstr("SF-E510"), HasSubstr("has failed: stop"))));
  }
}

TEST(SlowLink, TakesItsTime) {
  using Clock = std::chrono::steady_clock;
  const CommunicatorOptions slow = {.link_bytes_per_second = 1e6, .link_latency = 3ms};
  const Ends ends = run_ranks(3, slow, [](Communicator& communicator) {
    const auto begin = Clock::now();
    std::vector<std::byte> bytes(10'000);
    communicator.broadcast(bytes, 0);
    // Two messages, one behind the other, behind the call itself.
    EXPECT_GE(Clock::now() - begin, (communicator.rank() == 0 ? 20ms : 10ms) + 2 * 3ms);
  });
  EXPECT_EQ(ends, Ends(3));
}

}  // namespace
}  // namespace sectionflow::comm_tests

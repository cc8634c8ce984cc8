// What the calls of a communicator do, and what each refuses by itself.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "tests/comm/rank_threads.h"

namespace sectionflow::comm_tests {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<std::byte> numbered_bytes(std::size_t count, int first) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>((static_cast<std::size_t>(first) * 37 + i * 11 + i / 256) % 256);
  return bytes;
}

TEST(Communicators, KnowTheirRanks) {
  const auto communicators = in_process_communicators(3);
  ASSERT_EQ(communicators.size(), 3U);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(communicators[static_cast<std::size_t>(rank)]->rank(), rank);
    EXPECT_EQ(communicators[static_cast<std::size_t>(rank)]->size(), 3);
    EXPECT_EQ(communicators[static_cast<std::size_t>(rank)]->description(), "3 ranks in one process");
  }
}

TEST(Communicators, OfOneRankNeedNobody) {
  const auto alone = in_process_communicators(1).front();
  EXPECT_EQ(alone->description(), "1 rank in one process");
  std::vector<std::byte> bytes = numbered_bytes(10, 1), all(10);
  alone->barrier();
  alone->broadcast(bytes, 0);
  alone->all_gather(bytes, all);
  EXPECT_EQ(all, bytes);
  alone->expect_same("the plan", "text");
  const std::vector<float> x = {1, 2}, start = {10, 20};
  std::vector<float> sum(2);
  alone->all_reduce_sum(x.data(), start.data(), sum.data(), 2, nullptr);
  EXPECT_EQ(sum, (std::vector<float>{11, 22}));
}

TEST(Barrier, LetsNobodyGoOnBeforeAllHaveCome) {
  for (const int ranks : {2, 5}) {
    std::atomic<int> come = 0;
    const Ends ends = run_ranks(ranks, [&](Communicator& communicator) {
      for (int round = 1; round <= 50; ++round) {
        ++come;
        communicator.barrier();
        EXPECT_GE(come, round * ranks);
        communicator.barrier();
      }
    });
    EXPECT_EQ(ends, Ends(static_cast<std::size_t>(ranks)));
  }
}

TEST(Broadcast, BringsTheBytesOfAnyRankToAll) {
  for (const int ranks : {2, 3, 6}) {
    // Of no byte, short, in stretches, and in stretches of many messages.
    for (const std::size_t bytes : {0, 1, 1000, 65537, 300000, 3000001}) {
      const Ends ends = run_ranks(ranks, [&](Communicator& communicator) {
        for (int root = 0; root < (bytes > 1000000 ? 1 : ranks); ++root) {
          const std::vector<std::byte> wanted = numbered_bytes(bytes, root);
          std::vector<std::byte> got = numbered_bytes(bytes, communicator.rank());
          communicator.broadcast(got, root);
          EXPECT_EQ(got, wanted);
        }
      });
      EXPECT_EQ(ends, Ends(static_cast<std::size_t>(ranks))) << bytes;
    }
  }
}

TEST(AllGather, PutsTheBytesOfAllInRankOrder) {
  for (const int ranks : {2, 5}) {
    for (const std::size_t bytes : {0, 3, 600001}) {
      const Ends ends = run_ranks(ranks, [&](Communicator& communicator) {
        std::vector<std::byte> wanted;
        for (int rank = 0; rank < ranks; ++rank) {
          for (const std::byte byte : numbered_bytes(bytes, rank)) wanted.push_back(byte);
        }
        const std::vector<std::byte> mine = numbered_bytes(bytes, communicator.rank());
        std::vector<std::byte> all(wanted.size());
        communicator.all_gather(mine, all);
        EXPECT_EQ(all, wanted);
        // From its own place.
        std::vector<std::byte> again(wanted.size());
        const auto place = std::span(again).subspan(static_cast<std::size_t>(communicator.rank()) * bytes, bytes);
        std::copy(mine.begin(), mine.end(), place.begin());
        communicator.all_gather(place, again);
        EXPECT_EQ(again, wanted);
      });
      EXPECT_EQ(ends, Ends(static_cast<std::size_t>(ranks)));
    }
  }
}

TEST(ExpectSame, SaysWhichRankDiffersInWhichLineAndTheCommunicatorGoesOn) {
  const Ends ends = run_ranks(4, [](Communicator& communicator) {
    communicator.expect_same("the plan of the training step", "");
    communicator.expect_same("the plan of the training step", std::string(1000000, 'x'));
    const std::string own = communicator.rank() < 2 ? "a\nb x [8,3]\nc" : "a\nb x [4,3]\nc";
    try {
      communicator.expect_same("the plan of the training step", own);
      ADD_FAILURE() << "not refused";
    } catch (const CommunicationError& error) {
      EXPECT_EQ(error.code(), ErrorCode::different_texts);
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("SF-E512 CommunicationError: rank "),
                        HasSubstr(" of 4 in call 3, expect_same: the plan of the training step of rank 2 is "
                                  "another than rank 0's: line 2 is 'b x [4,3]', rank 0's 'b x [8,3]'")));
    }
    // One text goes on where the other ends; what they are of differs.
    EXPECT_THAT([&] { communicator.expect_same("it", communicator.rank() == 1 ? "a\nb" : "a"); },
                ThrowsMessage<CommunicationError>(
                    HasSubstr("it of rank 1 is another than rank 0's: line 2 is 'b', rank 0's ''")));
    EXPECT_THAT([&] { communicator.expect_same(communicator.rank() == 3 ? "the feeds" : "the plan", "a"); },
                ThrowsMessage<CommunicationError>(HasSubstr("rank 3 compares the feeds, rank 0 the plan")));
    communicator.barrier();
  });
  EXPECT_EQ(ends, Ends(4));
}

TEST(Arguments, ThatOneRankSeesToBeWrongAreRefusedBeforeAnythingIsSent) {
  const auto expect_refused = [](const auto& call, const std::string& text) {
    EXPECT_THAT(call, ThrowsMessage<ArgumentError>(HasSubstr(text)));
  };
  expect_refused([] { (void)in_process_communicators(0); }, "0 ranks in one process; wanted 1 to 1024");
  expect_refused([] { (void)in_process_communicators(2, {.deadline = 0ms}); },
                 "deadline is 0 ms; wanted 1 ms to a year");
  expect_refused([] { (void)in_process_communicators(2, {.deadline = std::chrono::milliseconds::max()}); },
                 "wanted 1 ms to a year");
  expect_refused([] { (void)in_process_communicators(2, {.link_bytes_per_second = 10}); }, "wanted at least 1000");
  expect_refused([] { (void)in_process_communicators(2, {.link_latency = -1us}); }, "link_latency is -1 us");
  expect_refused([] { (void)chunk_of(-1, 0, 2); }, "chunks of -1 elements");
  expect_refused([] { (void)chunk_of(1, 2, 2); }, "the chunk of rank 2 of 2; wanted 0 to 1");
  expect_refused([] { (void)Communicator::reduce_workspace(1, 0); }, "chunks for 0 ranks");
  expect_refused([] { (void)Communicator::reduce_workspace(1, 2, Dtype::bf16); }, "ranks add f32 and i64, not bf16");
  const Ends ends = run_ranks(2, [&](Communicator& communicator) {
    std::vector<std::byte> bytes(8);
    std::vector<float> x(8), workspace(8);
    expect_refused([&] { communicator.broadcast(bytes, 2); }, "broadcast of rank 2 among 2 ranks; wanted 0 to 1");
    expect_refused([&] { communicator.all_gather(bytes, bytes); }, "all_gather of 8 bytes from each of 2 ranks into 8");
    expect_refused([&] { communicator.all_reduce_sum(x.data(), nullptr, nullptr, 8, workspace.data()); },
                   "has nullptr");
    expect_refused([&] { communicator.all_reduce_sum(x.data(), nullptr, x.data(), 8, nullptr); },
                   "needs 32 bytes of workspace, aligned to an element; got 0");
    expect_refused([&] { communicator.reduce_scatter_sum(x.data(), nullptr, x.data(), -8, workspace.data()); },
                   "-8 elements");
    communicator.barrier();
  });
  EXPECT_EQ(ends, Ends(2));
}

TEST(Arguments, ASecondThreadInACallIsRefusedAndTheFirstGoesOn) {
  auto communicators = in_process_communicators(2);
  Communicator& first = *communicators[0];
  // Either may be the second; this thread's calls are refused in any case, and send nothing.
  std::thread waits([&] {
    for (bool has_come = false; !has_come;) {
      try {
        first.barrier();
        has_come = true;
      } catch (const ArgumentError&) {
      }
    }
  });
  std::string refusal;
  while (refusal.empty()) {
    try {
      first.broadcast({}, 2);
    } catch (const ArgumentError& error) {
      if (error.code() == ErrorCode::two_threads) refusal = error.what();
    }
  }
  EXPECT_THAT(refusal, AllOf(HasSubstr("SF-E012"), HasSubstr("the communicator")));
  communicators[1]->barrier();
  waits.join();
}

}  // namespace
}  // namespace sectionflow::comm_tests

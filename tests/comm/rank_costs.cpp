// What sums over ranks cost on paper.

#include "comm/rank_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/call.h"

namespace sectionflow::comm_tests {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr double kBytes = 1 << 24, kRate = 1e9, kLatency = 5e-6;

RankNetwork network_of(Reduction reduction, int ranks) {
  return {.ranks = ranks, .link = {kRate, kLatency}, .reduction = reduction};
}

/// Sums of the same terms in another order.
void expect_close(double value, double wanted) {
  EXPECT_NEAR(value, wanted, 1e-12 * wanted);
}

TEST(RankCosts, OfARingAreInClosedForm) {
  for (const int n : {2, 3, 8, 4096}) {
    const RankCost cost = all_reduce_cost(kBytes, network_of(Reduction::ring, n));
    expect_close(cost.bytes_sent, 2.0 * (n - 1) / n * kBytes);
    expect_close(cost.seconds, 2.0 * (n - 1) * (kLatency + kBytes / n / kRate));
    expect_close(cost.latency_seconds, 2.0 * (n - 1) * kLatency);
  }
}

TEST(RankCosts, OfATreeGrowWithTheLogarithm) {
  for (const auto& [n, depth] : {std::pair(2, 1), std::pair(3, 2), std::pair(4, 2), std::pair(4096, 12)}) {
    const RankCost cost = all_reduce_cost(kBytes, network_of(Reduction::tree, n));
    expect_close(cost.seconds, 2.0 * depth * (kLatency + kBytes / kRate));
    expect_close(cost.bytes_sent, depth * kBytes);
  }
}

TEST(RankCosts, OfMachinesAreThoseOfRingsWithinAndBetween) {
  RankNetwork network = network_of(Reduction::hierarchical, 64);
  network.ranks_per_machine = 8;
  network.machine_link = {10 * kRate, kLatency / 5};
  const double within = 2.0 * 7 * (kLatency / 5 + kBytes / 8 / (10 * kRate));
  const double between = 2.0 * 7 * (kLatency + kBytes / 8 / kRate);
  const RankCost cost = all_reduce_cost(kBytes, network);
  expect_close(cost.seconds, within + between);
  expect_close(cost.bytes_sent, 2.0 * 7 / 8 * kBytes + 2.0 * 7 / 8 * kBytes / 8);
  // Of one rank a machine, and of one machine, they are those of a ring.
  network.ranks_per_machine = 1;
  expect_close(all_reduce_cost(kBytes, network).seconds,
               all_reduce_cost(kBytes, network_of(Reduction::ring, 64)).seconds);
}

TEST(RankCosts, ToAndFromOneRankAreWhatOneLinkCarries) {
  for (const int n : {2, 4, 64}) {
    const RankNetwork network = network_of(Reduction::direct, n);
    const double calls = (n - 1) * static_cast<double>(sizeof(Call));
    const RankCost sum = reduce_cost(kBytes, network), copies = broadcast_cost(kBytes, network);
    expect_close(sum.bytes_sent, kBytes + calls);
    expect_close(copies.bytes_sent, (n == 2 ? 1.0 : 2.0 * (n - 1) / n) * kBytes + calls);
    EXPECT_GE(sum.seconds, kBytes / kRate);
    EXPECT_LT(sum.seconds, 1.01 * kBytes / kRate + 200 * kLatency);
    EXPECT_LT(copies.seconds, 2.05 * kBytes / kRate + 200 * kLatency);
    // Short ones go to each by itself.
    expect_close(broadcast_cost(1000, network).bytes_sent, (n - 1) * 1000.0 + calls);
  }
  EXPECT_EQ(reduce_cost(kBytes, network_of(Reduction::ring, 1)), RankCost());
  EXPECT_EQ(broadcast_cost(kBytes, network_of(Reduction::ring, 1)), RankCost());
}

TEST(RankCosts, OfDirectSumsAreThoseThatARingSendsThreeMessagesDeep) {
  for (const int n : {2, 4, 64}) {
    RankNetwork network = network_of(Reduction::direct, n);
    const double elements = 1 << 18;
    const RankCost cost = all_reduce_cost(4 * elements, network);
    EXPECT_NEAR(cost.bytes_sent, 2.0 * (n - 1) / n * 4 * elements, 128.0 * n);
    EXPECT_NEAR(cost.latency_seconds, 3 * kLatency, 1e-12);
    network.link.latency = 0;
    const double carried = all_reduce_cost(4 * elements, network).seconds;
    EXPECT_NEAR(carried, 2.0 * (n - 1) / n * 4 * elements / kRate, 128.0 * n / kRate);
    EXPECT_NEAR(cost.seconds, carried + 3 * kLatency, 1e-9);
  }
}

TEST(RankCosts, OfDirectSumsWaitForPiecesWhereTheLinkIsLong) {
  // Two pieces of 256 KiB are on their way at most: a second of latency is waited for every second round.
  const double chunk = 64 * 256 * 1024;
  RankNetwork network{.ranks = 2, .link = {1e12, 1.0}, .reduction = Reduction::direct};
  const RankCost cost = all_reduce_cost(2 * chunk, network);
  EXPECT_NEAR(cost.seconds, 1 + 2 * 64 / 2, 0.01);
}

TEST(RankCosts, GrowWithRanksBytesAndSlowerLinks) {
  for (const Reduction reduction : reductions()) {
    RankNetwork network = network_of(reduction, 16);
    network.ranks_per_machine = 4;
    network.machine_link = {4 * kRate, kLatency / 2};
    const double seconds = all_reduce_cost(kBytes, network).seconds;
    EXPECT_GT(all_reduce_cost(2 * kBytes, network).seconds, seconds) << name_of(reduction);
    RankNetwork slower = network, larger = network;
    slower.link.bytes_per_second /= 2;
    larger.ranks *= 4;
    EXPECT_GT(all_reduce_cost(kBytes, slower).seconds, seconds) << name_of(reduction);
    EXPECT_GT(all_reduce_cost(kBytes, larger).seconds, seconds) << name_of(reduction);
    EXPECT_GT(all_gather_cost(kBytes, larger).seconds, all_gather_cost(kBytes, network).seconds) << name_of(reduction);
  }
}

TEST(RankCosts, OfOneRankAreNothing) {
  for (const Reduction reduction : reductions()) {
    EXPECT_EQ(all_reduce_cost(kBytes, network_of(reduction, 1)), RankCost());
    EXPECT_EQ(all_gather_cost(kBytes, network_of(reduction, 1)), RankCost());
  }
}

TEST(RankCosts, OfNumbersThatMeanNothingAreRefused) {
  EXPECT_THAT([] { (void)all_reduce_cost(kBytes, network_of(Reduction::ring, 0)); },
              ThrowsMessage<ArgumentError>(HasSubstr("0 ranks of 1 a machine; wanted at least 1")));
  RankNetwork network = network_of(Reduction::tree, 2);
  network.link.latency = -1;
  EXPECT_THAT([&] { (void)all_reduce_cost(kBytes, network); }, ThrowsMessage<ArgumentError>(HasSubstr("number -1")));
}

}  // namespace
}  // namespace sectionflow::comm_tests

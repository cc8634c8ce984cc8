#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "graph/graph_file.h"
#include "graph/nodes/shards.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "graph/variable_shards.h"
#include "runtime/session.h"
#include "tests/support/ranked_training.h"

namespace sectionflow::shards_tests {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using testing::on_ranks;

/// Values without a pattern, of all magnitudes.
HostTensor wild(const Shape& shape, float phase) {
  HostTensor tensor(Dtype::f32, shape);
  for (int i = 0; float& element : tensor.values<float>()) {
    element = std::ldexp(std::sin(phase + 1.7F * static_cast<float>(i)), i % 23 - 11);
    ++i;
  }
  return tensor;
}

TEST(ShardElements, AreAnNthInLinesOrInBlocksOfNorms) {
  EXPECT_EQ(shard_elements(0, 3), 0);
  EXPECT_EQ(shard_elements(1, 3), 1);
  EXPECT_EQ(shard_elements(10, 2), 10) << "a line at least";
  EXPECT_EQ(shard_elements(100, 2), 64);
  EXPECT_EQ(shard_elements(32 * kNormBlock, 2), 16 * kNormBlock);
  EXPECT_EQ(shard_elements(32 * kNormBlock + 1, 2), 17 * kNormBlock);
  EXPECT_EQ(shard_elements(32 * kNormBlock - 32, 2), 16 * kNormBlock - 16);
  for (const std::int64_t ranks : {1, 2, 3, 5, 8}) {
    for (const std::int64_t elements : {0, 1, 17, 1000, 40003, 3'000'001}) {
      const ShardLayout layout(elements, {.ranks = ranks}), at_server(elements, {ranks, true, ranks - 1});
      std::int64_t all = 0;
      for (std::int64_t rank = 0; rank < ranks; ++rank) all += layout.elements_of(rank);
      EXPECT_EQ(all, elements) << ranks << " ranks";
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(at_server.elements_of(rank), rank == ranks - 1 ? elements : 0) << ranks << " ranks";
      }
      EXPECT_LE(layout.shard, (elements + ranks - 1) / ranks * 17 / 16 + 16) << ranks << " ranks";
    }
  }
}

// Some with less than a block, some with blocks that shards end with.
const std::vector<Shape> kShapes = {{3, 5}, {}, {0, 4}, {40003}, {3, 200, 1003}};

TEST(NormOfShards, HasTheBitsOfTheNormOfTheWhole) {
  for (const ShardHolders& holders :
       {ShardHolders{1}, ShardHolders{2}, ShardHolders{3}, ShardHolders{2, true, 0}, ShardHolders{3, true, 1}}) {
    const auto ranks = static_cast<int>(holders.ranks);
    const auto thrown = on_ranks(ranks, [&](std::shared_ptr<Communicator> communicator) {
      Graph graph;
      std::vector<Value> wholes, shards;
      std::vector<std::int64_t> elements;
      for (const Shape& shape : kShapes) {
        const Value whole = constant(graph, wild(shape, static_cast<float>(wholes.size())));
        wholes.push_back(whole);
        elements.push_back(shape.num_elements());
        shards.push_back(shard_of_value("shard", whole, holders));
      }
      graph.add_to_collection(kRanks, constant(graph, HostTensor::scalar(std::int64_t{ranks})));
      const Value norm = global_norm(wholes), of_shards = norm_of_shards(shards, elements, holders);
      Session session(graph, {.threads = 1, .communicator = communicator, .check_schedules = true});
      session.initialize();
      const auto [whole, together] = session.run({norm, of_shards}, {});
      EXPECT_TRUE(bitwise_equal(whole, together)) << text_of_holders(holders);
      for (std::size_t i = 0; i < shards.size(); ++i) {
        EXPECT_TRUE(bitwise_equal(session.read(shards[i]), *constant_content(wholes[i]))) << kShapes[i];
      }
    });
    EXPECT_THAT(thrown, Each("")) << text_of_holders(holders);
  }
}

/// As a file may tell it; nothing behind the shard is read.
TEST(NormOfShards, OfLessThanItsHoldersHaveIsRefused) {
  const ShardHolders holders{1, true, 0};
  const auto thrown = on_ranks(1, [&](std::shared_ptr<Communicator> communicator) {
    Graph graph;
    const Value shard = shard_of_value("shard", constant(graph, wild({0, 4}, 1)), holders);
    graph.add_to_collection(kRanks, constant(graph, HostTensor::scalar(std::int64_t{1})));
    const Value norm = norm_of_shards({shard}, {1000}, holders);
    Session session(graph, {.threads = 1, .communicator = communicator});
    session.initialize();
    (void)session.run(std::vector{norm}, {});
  });
  EXPECT_THAT(thrown, Each(HasSubstr("SF-E036")));
}

TEST(ShardVariable, IsReadByWhatIsGatheredAndLeavesTheGraphWithAChangeThatFails) {
  Graph graph;
  const Value w = variable("w", fill(graph, {40}, 2.0F));
  EXPECT_THROW(graph.all_or_nothing([&] {
    (void)shard_variable(w, {2});
    throw ArgumentError("no");
  }),
               ArgumentError);
  EXPECT_FALSE(shard_of(w).valid());
  const Value shard = shard_variable(w, {2});
  EXPECT_EQ(shard_of(w), shard);
  EXPECT_EQ(shard_variable(w, {2}), shard);
  EXPECT_EQ(variable_of_shard(shard), w);
  EXPECT_EQ(whole_type(shard), w.type());
  EXPECT_THROW((void)shard_variable(w, {3}), ArgumentError);
  EXPECT_THROW((void)shard_variable(w, {2, true, 0}), ArgumentError);
  EXPECT_THROW((void)shard_of_value("at_none", fill(graph, {4}, 0), {2, true, 2}), ArgumentError);
}

TEST(ShardVariable, IsOneOfALoadedGraphToo) {
  Graph graph, loaded;
  const Value w = variable("w", fill(graph, {40}, 2.0F)), copy = variable("copy", fill(graph, {40}, 2.0F));
  (void)shard_variable(w, {2});
  const ShardHolders server{2, true, 1};
  for (int i = 0; i < 2; ++i) (void)refresh_copy(copy, master_of_copies(copy, server), {});
  load_graph_text(loaded, graph_text(graph));
  const Value again = loaded.find("w").output();
  ASSERT_TRUE(shard_of(again).valid());
  EXPECT_EQ(shard_of(again).name(), "w/shard");
  EXPECT_FALSE(master_of(again).valid());
  const Value copy_again = loaded.find("copy").output(), master = master_of(copy_again);
  ASSERT_TRUE(master.valid());
  EXPECT_FALSE(shard_of(copy_again).valid());
  EXPECT_EQ(holders_of_shard(master), server);
  EXPECT_EQ(variable_of_shard(master), copy_again);
  EXPECT_EQ(graph_text(loaded), graph_text(graph));
}

}  // namespace
}  // namespace sectionflow::shards_tests

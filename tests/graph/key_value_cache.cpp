// Attention that remembers: texts that are written token by token see what the whole text sees at once.
#include "graph/key_value_cache.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/shared_variables.h"
#include "graph/transformer.h"
#include "runtime/session.h"
#include "tests/graph/blocks_case.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

constexpr std::int64_t kBatch = 2, kCapacity = 7, kWidth = 12, kHeads = 3, kBlocks = 2;

/// What the blocks of a net have in common.
struct CacheCase {
  std::string name;
  MultiHeadAttentionOptions attention{.heads = kHeads, .causal = true};
  std::int64_t key_value_heads = kHeads;
};

/// A net of blocks over x [N, T, kWidth], at once and by pieces of these lengths, with the same variables.
class CachedNet {
 public:
  CachedNet(CacheCase test, const std::vector<std::int64_t>& lengths) : test_(std::move(test)) {
    whole_ = placeholder(graph_, "whole", {kBatch, kCapacity, kWidth});
    whole_result_ = blocks(whole_, false);
    for (std::int64_t block = 0; block < kBlocks; ++block) {
      caches_.push_back(key_value_cache(graph_, {.batch = kBatch,
                                                 .heads = test_.key_value_heads,
                                                 .head_width = kWidth / kHeads,
                                                 .capacity = kCapacity,
                                                 .name = text_of("cache_", block)}));
    }
    for (const std::int64_t length : lengths) {
      pieces_.push_back(placeholder(graph_, "piece", {kBatch, length, kWidth}));
      results_.push_back(blocks(pieces_.back(), true));
    }
    session_.emplace(graph_, SessionOptions{.seed = 3});
    session_->initialize();
  }

  /// Rows of the text.
  HostTensor rows(std::int64_t first, std::int64_t count) const {
    HostTensor part(Dtype::f32, {kBatch, count, kWidth});
    for (std::int64_t n = 0; n < kBatch; ++n) {
      for (std::int64_t i = 0; i < count * kWidth; ++i) {
        part.values<float>()[static_cast<std::size_t>(n * count * kWidth + i)] =
            static_cast<float>(block_case::pattern((n * kCapacity + first) * kWidth + i, 3)) * 4;
      }
    }
    return part;
  }
  HostTensor at_once() {
    return std::move(session_->run(std::vector{whole_result_}, {{whole_, rows(0, kCapacity)}})[0]);
  }
  /// The rows of piece number `piece`, which stands at `first`.
  HostTensor piece(std::size_t piece, std::int64_t first) {
    return piece_of(piece, first, rows(first, pieces_[piece].shape()[1]));
  }
  HostTensor piece_of(std::size_t piece, std::int64_t first, const HostTensor& fed) {
    return std::move(session_->run(std::vector{results_[piece]}, {{pieces_[piece], fed}, {position_, first}})[0]);
  }
  /// Two of them.
  void all_pieces_at_once() {
    const HostTensor first = rows(0, pieces_[0].shape()[1]), second = rows(0, pieces_[1].shape()[1]);
    (void)session_->run(results_, {{pieces_[0], first}, {pieces_[1], second}, {position_, std::int64_t{0}}});
  }

 private:
  Value blocks(Value x, bool is_cached) {
    const auto scope = shared_.scope();
    for (std::int64_t block = 0; block < kBlocks; ++block) {
      MultiHeadAttentionOptions attention = test_.attention;
      attention.key_value_heads = test_.key_value_heads;
      if (is_cached) {
        attention.cache = caches_[static_cast<std::size_t>(block)];
        attention.position = position_;
      }
      x = transformer_block(x, {.attention = attention, .name = text_of("block_", block)});
    }
    return x;
  }

  Graph graph_;
  SharedVariables shared_{graph_, "net"};
  CacheCase test_;
  Value position_ = placeholder(graph_, "position", {}, Dtype::i64);
  Value whole_, whole_result_;
  std::vector<KeyValueCache> caches_;
  std::vector<Value> pieces_, results_;
  std::optional<Session> session_;
};

/// That rows of a piece are those of the whole text, within epsilons of 1 and of themselves.
void expect_rows(const HostTensor& whole, const HostTensor& piece, std::int64_t first, const std::string& what) {
  const std::int64_t count = piece.shape()[1];
  for (std::int64_t n = 0; n < kBatch; ++n) {
    for (std::int64_t i = 0; i < count * kWidth; ++i) {
      const float wanted = whole.values<float>()[static_cast<std::size_t>((n * kCapacity + first) * kWidth + i)];
      const float found = piece.values<float>()[static_cast<std::size_t>(n * count * kWidth + i)];
      ASSERT_NEAR(found, wanted, 32 * std::numeric_limits<float>::epsilon() * (1 + std::abs(wanted)))
          << what << ", example " << n << ", number " << i << " of the rows from " << first;
    }
  }
}

std::vector<CacheCase> cases() {
  const RotaryOptions turned{}, side_by_side{.interleaved = true, .first_position = 5};
  return {{.name = "plain"},
          {.name = "rotary, one head of keys",
           .attention = {.heads = kHeads, .causal = true, .rotary = turned},
           .key_value_heads = 1},
          {.name = "rotary with pairs side by side, from place 5",
           .attention = {.heads = kHeads, .causal = true, .rotary = side_by_side}},
          {.name = "a window", .attention = {.heads = kHeads, .causal = true, .window = 3}}};
}

TEST(KeyValueCache, WritesTokenByTokenWhatTheWholeTextGives) {
  for (const CacheCase& test : cases()) {
    CachedNet net(test, {1});
    const HostTensor whole = net.at_once();
    for (std::int64_t place = 0; place < kCapacity; ++place) {
      expect_rows(whole, net.piece(0, place), place, test.name);
    }
  }
}

TEST(KeyValueCache, TakesAPromptAtOnceAndThenTokens) {
  for (const CacheCase& test : cases()) {
    CachedNet net(test, {4, 1, 2});
    const HostTensor whole = net.at_once();
    expect_rows(whole, net.piece(0, 0), 0, test.name);
    expect_rows(whole, net.piece(1, 4), 4, test.name);
    expect_rows(whole, net.piece(2, 5), 5, test.name);
  }
}

TEST(KeyValueCache, ForgetsWhatStandsBehindThePosition) {
  CachedNet net({.name = "plain"}, {1});
  const HostTensor whole = net.at_once();
  for (std::int64_t place = 0; place < kCapacity; ++place) (void)net.piece(0, place);
  const HostTensor first = net.piece(0, 0);
  expect_rows(whole, first, 0, "from the beginning again");
}

TEST(KeyValueCache, GivesNaNAtPlacesThatItHasNot) {
  CachedNet net({.name = "plain"}, {1, 2});
  const HostTensor whole = net.at_once();
  for (std::int64_t place = 0; place < kCapacity; ++place) (void)net.piece(0, place);
  const HostTensor beyond = net.piece(0, kCapacity);
  for (const float number : beyond.values<float>()) ASSERT_TRUE(std::isnan(number));
  const HostTensor half = net.piece(1, kCapacity - 1);
  for (std::int64_t n = 0; n < kBatch; ++n) {
    for (std::int64_t i = 0; i < 2 * kWidth; ++i) {
      ASSERT_EQ(std::isnan(half.values<float>()[static_cast<std::size_t>(n * 2 * kWidth + i)]), i >= kWidth);
    }
  }
  expect_rows(whole, net.piece(0, kCapacity - 1), kCapacity - 1, "what was kept before");
}

TEST(KeyValueCache, ForgetsNaNThatAnEarlierTextHasLeft) {
  CachedNet net({.name = "plain"}, {1});
  const HostTensor whole = net.at_once();
  (void)net.piece(0, 0);
  HostTensor broken = net.rows(1, 1);
  for (float& number : broken.values<float>()) number = std::numeric_limits<float>::quiet_NaN();
  const HostTensor after = net.piece_of(0, 1, broken);
  ASSERT_TRUE(std::isnan(after.values<float>()[0]));
  for (std::int64_t place = 0; place < kCapacity; ++place) {
    expect_rows(whole, net.piece(0, place), place, "behind NaN");
  }
}

TEST(KeyValueCache, RefusesARunOfTwoNetsThatShareIt) {
  CachedNet net({.name = "plain"}, {2, 1});
  const std::string text = error_text<ArgumentError>([&] { net.all_pieces_at_once(); });
  EXPECT_NE(text.find("cycle"), std::string::npos) << text;
  const HostTensor whole = net.at_once();
  expect_rows(whole, net.piece(0, 0), 0, "one of them");
  expect_rows(whole, net.piece(1, 2), 2, "then the other");
}

TEST(KeyValueCache, HoldsTheExamplesOfANetToItsOwn) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 1, kWidth}), position = placeholder(graph, "p", {}, Dtype::i32);
  const KeyValueCache cache = key_value_cache(graph, {.batch = 2, .heads = 3, .head_width = 4, .capacity = kCapacity});
  const Value y = multi_head_attention(x, {.heads = 3, .causal = true, .cache = cache, .position = position});
  EXPECT_EQ((x + y).type().text(), "f32[?,1,12]") << "like x, to be added to it";
  Session session(graph);
  session.initialize();
  EXPECT_NO_THROW((void)session.run({y}, {{x, HostTensor(Dtype::f32, {2, 1, kWidth})}, {position, 0}}));
  EXPECT_THROW((void)session.run({y}, {{x, HostTensor(Dtype::f32, {1, 1, kWidth})}, {position, 0}}), ShapeError);
}

TEST(KeyValueCache, ThatDoesNotFitIsRefused) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kBatch, 1, kWidth}), position = placeholder(graph, "p", {}, Dtype::i64),
              number = placeholder(graph, "number", {}), memory = placeholder(graph, "memory", {kBatch, 5, kWidth}),
              lengths = placeholder(graph, "lengths", {kBatch}, Dtype::i32),
              unknown = placeholder(graph, "unknown", {kBatch, kDynamic, kWidth});
  const auto cache_of = [&](std::int64_t batch, std::int64_t heads) {
    return key_value_cache(graph, {.batch = batch, .heads = heads, .head_width = 4, .capacity = kCapacity});
  };
  const KeyValueCache cache = cache_of(kBatch, kHeads);
  const std::int64_t nodes = graph.num_nodes();
  const auto with = [&](Value of, MultiHeadAttentionOptions options) {
    options.heads = kHeads;
    (void)multi_head_attention(of, options);
  };
  EXPECT_THROW(with(x, {.causal = true, .cache = cache}), ArgumentError) << "without position";
  EXPECT_THROW(with(x, {.causal = true, .position = position}), ArgumentError) << "without a cache";
  EXPECT_THROW(with(x, {.cache = cache, .position = position}), ArgumentError) << "not causal";
  EXPECT_THROW(with(x, {.causal = true, .cache = cache, .position = number}), ArgumentError) << "f32";
  EXPECT_THROW(with(x, {.causal = true, .key_lengths = lengths, .cache = cache, .position = position}), ArgumentError);
  EXPECT_THROW(with(unknown, {.causal = true, .cache = cache, .position = position}), ShapeError);
  EXPECT_THROW(with(x, {.causal = true, .cache = {.keys = cache.keys}, .position = position}), ArgumentError);
  const Value longer = placeholder(graph, "longer", {kBatch, kCapacity + 1, kWidth});
  EXPECT_THROW(with(longer, {.causal = true, .cache = cache, .position = position}), ShapeError);
  EXPECT_THROW(with(x, {.causal = true, .cache = {cache.keys, cache.keys}, .position = position}), ArgumentError);
  EXPECT_THROW(
      (void)multi_head_attention(x, memory, {.heads = kHeads, .causal = true, .cache = cache, .position = position}),
      ArgumentError);
  EXPECT_EQ(graph.num_nodes(), nodes + 1) << "the longer placeholder";
  EXPECT_THROW(with(x, {.causal = true, .cache = cache_of(kBatch + 1, kHeads), .position = position}), ShapeError);
  EXPECT_THROW(with(x, {.causal = true, .cache = cache_of(kBatch, 1), .position = position}), ShapeError);
  EXPECT_THROW((void)key_value_cache(graph, {.heads = 1, .head_width = 4}), ArgumentError) << "no capacity";
  EXPECT_THROW((void)key_value_cache(graph, {.heads = 1, .head_width = 4, .capacity = 3, .dtype = Dtype::i32}),
               ArgumentError);
}

}  // namespace
}  // namespace sectionflow

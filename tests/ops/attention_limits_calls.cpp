// What attention with lengths, windows, masks, groups and dropped probabilities promises beside its arithmetic.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/gradients.h"
#include "graph/graph_file.h"
#include "graph/nodes/attention.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/attention.h"
#include "graph/ops/basic.h"
#include "graph/ops/dropout.h"
#include "graph/ops/layout.h"
#include "graph/ops/matmul.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/parameter.h"
#include "op_case/case_values.h"
#include "tests/graph/description.h"
#include "tests/support/kernel_runner.h"

namespace sectionflow::testing_support {
namespace {

// ---- What a query that sees no key gives, and numbers behind lengths.

/// Numbers that differ.
HostTensor waves(const TensorType& type, float start) {
  HostTensor tensor(type);
  for (float& x : tensor.values<float>()) x = 2 * std::sin(start += 1.7F);
  return tensor;
}
Feeds waves_of(const std::vector<Value>& values) {
  Feeds feeds;
  for (const Value& value : values) feeds.emplace(value, waves(value.type(), static_cast<float>(feeds.size())));
  return feeds;
}

TEST(AttentionLimits, AQueryThatSeesNoKeyGivesZerosAndHasNoGradient) {
  Graph graph;
  const Value q = placeholder(graph, "q", {2, 2, 3, 4}), k = placeholder(graph, "k", {2, 1, 5, 4});
  const Value lengths = placeholder(graph, "lengths", {2}, Dtype::i32), bias = placeholder(graph, "bias", {3, 5});
  HostTensor of_images(Dtype::i32, {2});
  of_images.values<std::int32_t>()[1] = 4;
  HostTensor of_bias(Dtype::f32, {3, 5});
  // Of the second query nothing is seen either.
  for (int s = 5; s < 10; ++s) of_bias.values<float>()[s] = -std::numeric_limits<float>::infinity();
  const Value y = attention(q, k, k * 0.5F, {.key_lengths = lengths, .mask = bias});
  std::vector<Value> fetches = gradients(reduce_sum(square(y)), {q, k, bias});
  fetches.push_back(y);
  Feeds feeds = waves_of({q, k});
  feeds.emplace(lengths, std::move(of_images));
  feeds.emplace(bias, std::move(of_bias));
  const std::vector<HostTensor> found = run_kernels(fetches, feeds);
  for (const HostTensor& tensor : found)
    for (float x : tensor.values<float>()) EXPECT_TRUE(std::isfinite(x));
  for (const std::size_t i : {0, 3}) {  // dq and y
    for (int row = 0; row < 12; ++row) {
      const bool is_zero = row < 6 || row % 3 == 1;
      EXPECT_EQ(found[i].values<float>()[row * 4] == 0, is_zero) << "row " << row << " of " << i;
    }
  }
  for (int s = 0; s < 5; ++s) {
    EXPECT_EQ(found[1].values<float>()[s * 4], 0) << "the first image has no keys";
    EXPECT_EQ(found[2].values<float>()[5 + s], 0);
  }
  EXPECT_EQ(found[2].values<float>()[4], 0) << "no image has the last key";
}

TEST(AttentionLimits, WhatIsNotFiniteInAQueryStaysSo) {
  Graph graph;
  const Value q = placeholder(graph, "q", {1, 1, 2, 4}), k = placeholder(graph, "k", {1, 1, 5, 4});
  const Value bias = placeholder(graph, "bias", {1, 5});
  Feeds feeds = waves_of({q, k, bias});
  feeds.at(q).values<float>()[0] = std::nanf("");
  for (const AttentionOptions& options :
       {AttentionOptions{}, {.alignment = CausalAlignment::first_key, .window = 9}, {.mask = bias}}) {
    const std::vector<HostTensor> found = run_kernels({attention(q, k, k, options)}, feeds);
    EXPECT_TRUE(std::isnan(found[0].values<float>()[0]));
    EXPECT_TRUE(std::isfinite(found[0].values<float>()[4]));
  }
}

TEST(AttentionLimits, GroupsAreAsCopiesOfTheirKeys) {
  Graph graph;
  const Value q = placeholder(graph, "q", {2, 4, 70, 8}), k = placeholder(graph, "k", {2, 2, 70, 8});
  const Value apart = reshape(k, {2, 2, 1, 70, 8});
  const Value copies = reshape(broadcast_to(apart, {-1, -1, 2, -1, -1}), {2, 4, 70, 8});
  const Value in_groups = attention(q, k, k, {.causal = true}),
              of_copies = attention(q, copies, copies, {.causal = true});
  const auto dk = [&](Value y) { return gradients(reduce_sum(square(y)), {k})[0]; };
  const std::vector<HostTensor> found =
      run_kernels({in_groups, of_copies, dk(in_groups), dk(of_copies)}, waves_of({q, k}));
  for (const int i : {0, 2}) {
    const auto a = found[i].values<float>(), b = found[i + 1].values<float>();
    for (std::size_t at = 0; at < a.size(); ++at)
      EXPECT_NEAR(a[at], b[at], 4e-6 * std::max(1.0F, std::abs(b[at]))) << i << " " << at;
  }
}

// ---- Dropped probabilities.

/// Attention with dropout as one op, and composed of operations that hold the probabilities.
struct Dropping {
  Graph graph;
  Value q = placeholder(graph, "q", {2, 4, 70, 8}), k = placeholder(graph, "k", {2, 2, 70, 8});
  Value bias = placeholder(graph, "bias", {4, 70, 70});
  Value is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  std::vector<Value> results;

  explicit Dropping(bool composed) {
    const Value y = composed ? composed_y() : attention(q, k, k * 0.5F, options());
    results = gradients(reduce_sum(square(y)), {q, k, bias});
    results.push_back(y);
  }
  AttentionOptions options() const {
    return {.causal = true, .scale = 0.3F, .mask = bias, .dropout = 0.25F, .is_training = is_training};
  }
  Value copies() const {
    return reshape(broadcast_to(reshape(k, {2, 2, 1, 70, 8}), {-1, -1, 2, -1, -1}), {2, 4, 70, 8});
  }
  Value composed_y() {
    HostTensor seen(Dtype::boolean, {70, 70});
    for (int i = 0; i < 4900; ++i) seen.values<bool>()[i] = i % 70 <= i / 70;
    Value scores = matmul(q, copies(), {.transpose_b = true}) * 0.3F + bias;
    scores = select(constant(graph, std::move(seen)), scores, constant(graph, -1e30F));
    return matmul(dropout(softmax(scores), is_training, {.rate = 0.25F}), copies() * 0.5F);
  }
  std::vector<HostTensor> run(bool training, const RunOptions& options = {}) const {
    Feeds feeds = waves_of({q, k, bias});
    feeds.emplace(is_training, HostTensor::scalar(training));
    return run_kernels(results, feeds, options);
  }
};

TEST(AttentionDropout, DropsWhatDropoutOfTheHeldProbabilitiesDrops) {
  for (const bool training : {true, false}) {
    const std::vector<HostTensor> found = Dropping(false).run(training), wanted = Dropping(true).run(training);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto a = found[i].values<float>(), b = wanted[i].values<float>();
      for (std::size_t at = 0; at < a.size(); ++at)
        EXPECT_NEAR(a[at], b[at], 5e-5 * std::max(1.0F, std::abs(b[at]))) << "result " << i << ", element " << at;
    }
  }
}

TEST(AttentionLimits, RefusesWhatDoesNotFitAndLeavesTheGraphAsItWas) {
  Graph graph;
  const auto in = [&](Shape shape, Dtype dtype = Dtype::f32) {
    return placeholder(graph, "x", std::move(shape), dtype);
  };
  const Value q = in({2, 4, 3, 5}), k = in({2, 2, 6, 5}), odd = in({2, 3, 6, 5});
  const Value short_lengths = in({3}, Dtype::i32), pairs = in({2, 1}, Dtype::i32), f32_lengths = in({2});
  const Value whole_mask = in({3, 6}, Dtype::i32), wide = in({3, 7}), of_heads = in({2, 3, 3, 6}),
              many = in({1, 2, 4, 3, 6}), scalar = in({}), training = in({2}, Dtype::boolean);
  const auto expect = [&](const AttentionOptions& options, const std::string& wanted, Value keys = {}) {
    const auto before = testing_support::description(graph);
    std::string text;
    try {
      const Value read = keys.valid() ? keys : k;
      attention(q, read, read, options);
    } catch (const Error& error) {
      text = error.message();
    }
    EXPECT_TRUE(text.starts_with("attention") && contains(text, wanted)) << "wanted " << wanted << " in: " << text;
    EXPECT_EQ(testing_support::description(graph), before);
  };
  expect({}, "dimension 1 is 4 and 3; wanted as many heads of keys and values as of queries, or a divisor", odd);
  expect({.key_lengths = short_lengths}, "key_lengths is i32[3]; wanted one number an image, [2]");
  expect({.key_lengths = pairs}, "key_lengths is i32[2,1]; wanted one number an image, [2]");
  expect({.key_lengths = f32_lengths}, "key_lengths is f32[2]; wanted i32 or i64 [N]");
  expect({.mask = whole_mask}, "mask is i32[3,6]; wanted bool, of keys that are seen, or f32");
  expect({.mask = wide}, "mask is f32[3,7]; wanted [2 or 1, 4 or 1, 3 or 1, 6]");
  expect({.mask = of_heads}, "mask is f32[2,3,3,6]; wanted [2 or 1, 4 or 1, 3 or 1, 6]");
  expect({.mask = many}, "3 or 1, 6], perhaps without leading dimensions");
  expect({.mask = scalar}, "3 or 1, 6], perhaps without leading dimensions");
  expect({.window = -1}, "window is -1; wanted > 0, or 0 for all keys");
  expect({.window = 4}, "a window, with 3 queries and 6 keys");
  expect({.alignment = CausalAlignment::first_key}, "without causal; wanted both or none, or a window");
  expect({.dropout = 1}, "dropout is 1; wanted 0 to 1, without 1");
  expect({.dropout = std::nanf("")}, "dropout is nan; wanted 0 to 1");
  expect({.dropout = 0.5F, .is_training = training}, "is_training is bool[2]; wanted bool[]");
}

TEST(AttentionLimits, FeedsDecideUnknownNumbersOfQueriesKeysAndImages) {
  Graph graph;
  const Value q = placeholder(graph, "q", {kDynamic, 2, kDynamic, 4}),
              k = placeholder(graph, "k", {kDynamic, 1, kDynamic, 4}),
              lengths = placeholder(graph, "lengths", {kDynamic}, Dtype::i64),
              mask = placeholder(graph, "mask", {kDynamic, kDynamic});
  const Value y = attention(q, k, k, {.key_lengths = lengths, .mask = mask});
  EXPECT_EQ(y.type().text(), "f32[?,2,?,4]");
  const auto dmask = gradients(reduce_sum(square(y)), {mask})[0];
  Feeds feeds;
  feeds.emplace(q, waves({Dtype::f32, {3, 2, 5, 4}}, 0));
  feeds.emplace(k, waves({Dtype::f32, {3, 1, 6, 4}}, 1));
  feeds.emplace(lengths, op_cases::tensor_of({Dtype::i64, {3}}, {6, 2, 1}));
  feeds.emplace(mask, waves({Dtype::f32, {5, 6}}, 2));
  const std::vector<HostTensor> found = run_kernels({y, dmask}, feeds);
  EXPECT_EQ(found[0].type().text(), "f32[3,2,5,4]");
  EXPECT_EQ(found[1].type().text(), "f32[5,6]");
  feeds.erase(mask);
  feeds.emplace(mask, waves({Dtype::f32, {4, 6}}, 2));
  EXPECT_THROW(run_kernels({y}, feeds), ShapeError);
}

TEST(AttentionLimits, AreInGraphFilesWhereTheyAreUsedAlone) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3, 4, 5});
  (void)attention(x, x, x, {.causal = true});
  EXPECT_EQ(graph_text(graph).find("window"), std::string::npos) << "files of before are files of now";
  Graph limited;
  const Value y = placeholder(limited, "x", {2, 3, 4, 5});
  const Value lengths = placeholder(limited, "lengths", {2}, Dtype::i32);
  (void)gradients(reduce_sum(attention(y, y, y, {.window = 3, .key_lengths = lengths, .dropout = 0.5F})), {y});
  Graph loaded;
  load_graph_text(loaded, graph_text(limited));
  EXPECT_EQ(graph_text(loaded), graph_text(limited));
  EXPECT_EQ(loaded.find("attention").options<AttentionNodeOptions>().window, 3);
}

}  // namespace
}  // namespace sectionflow::testing_support

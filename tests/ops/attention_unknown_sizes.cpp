// Attention whose sizes feeds decide: its second derivatives are those of attention of known sizes, or are refused by
// name where they are built.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "autodiff/gradients.h"
#include "base/error.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/attention.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "graph/transformer.h"
#include "tests/support/contains.h"
#include "tests/support/kernel_runner.h"

namespace sectionflow::testing_support {
namespace {

/// What attention is asked for, and which sizes its placeholders tell.
struct Trial {
  bool causal, windowed, has_lengths, has_groups, has_scale;
  int mask;                        // 0: none, 1: f32, 2: boolean
  std::vector<Shape> known, told;  // of q, k, v, lengths, mask
};

Trial drawn_trial(std::mt19937& words) {
  const auto one_of = [&](int count) { return static_cast<int>(words() % static_cast<unsigned>(count)); };
  Trial trial{.causal = one_of(3) == 0,
              .windowed = one_of(4) == 0,
              .has_lengths = one_of(3) == 0,
              .has_groups = one_of(3) == 0,
              .has_scale = one_of(2) == 0,
              .mask = one_of(3),
              .known = {},
              .told = {}};
  const std::int64_t num_keys = trial.causal || trial.windowed ? 3 : 5, groups = trial.has_groups ? 2 : 4;
  const Shape masks[] = {{3, num_keys}, {4, 3, num_keys}, {2, 1, 1, num_keys}};
  trial.known = {{2, 4, 3, 4}, {2, groups, num_keys, 4}, {2, groups, num_keys, 4}, {2}, masks[one_of(3)]};
  // Each size is told by all, by some, or, of one axis, by none.
  for (const Shape& shape : trial.known) {
    std::vector<std::int64_t> dims = shape.dims();
    for (std::int64_t& dim : dims) dim = one_of(4) == 0 && dim != 1 ? kDynamic : dim;
    trial.told.emplace_back(std::move(dims));
  }
  if (one_of(2) != 0) return trial;
  const int axis = one_of(4);
  for (std::size_t i = 0; i < 3; ++i) {
    std::vector<std::int64_t> dims = trial.told[i].dims();
    dims[static_cast<std::size_t>(axis)] = kDynamic;
    trial.told[i] = Shape(std::move(dims));
  }
  return trial;
}

/// Numbers that differ.
HostTensor waves_in(const Shape& shape, float start) {
  HostTensor tensor(Dtype::f32, shape);
  for (float& x : tensor.values<float>()) x = std::sin(start += 1.7F);
  return tensor;
}

/// The gradient of the squares of the gradients. Sets `is_refused` where it is refused by its name.
std::vector<HostTensor> second_derivatives(const Trial& trial, const std::vector<Shape>& told, bool& is_refused) {
  Graph graph;
  const Value q = placeholder(graph, "q", told[0]), k = placeholder(graph, "k", told[1]),
              v = placeholder(graph, "v", told[2]), lengths = placeholder(graph, "lengths", told[3], Dtype::i32),
              mask = placeholder(graph, "mask", told[4]);
  AttentionOptions options{.causal = trial.causal, .window = trial.windowed ? 2 : 0};
  if (trial.has_scale) options.scale = 0.7F;
  if (trial.has_lengths) options.key_lengths = lengths;
  if (trial.mask > 0) options.mask = trial.mask == 1 ? mask : mask > -0.8F;
  std::vector<Value> inputs = {q, k, v};
  if (trial.mask == 1) inputs.push_back(mask);
  Value penalty;
  for (const Value& gradient : gradients(reduce_sum(square(attention(q, k, v, options))), inputs)) {
    const Value part = reduce_sum(square(gradient));
    penalty = penalty.valid() ? penalty + part : part;
  }
  std::vector<Value> second;
  try {
    second = gradients(penalty, inputs);
  } catch (const ArgumentError& error) {
    EXPECT_TRUE(contains(error.what(), "has a second derivative where sizes are known before a run")) << error.what();
    EXPECT_EQ(error.code(), ErrorCode::no_gradient_rule);
    is_refused = true;
    return {};
  }
  Feeds feeds;
  feeds.emplace(q, waves_in(trial.known[0], 0));
  feeds.emplace(k, waves_in(trial.known[1], 1));
  feeds.emplace(v, waves_in(trial.known[2], 2));
  if (trial.mask > 0) feeds.emplace(mask, waves_in(trial.known[4], 3));
  if (trial.has_lengths) feeds.emplace(lengths, HostTensor::of<std::int32_t>({2}, {2, 3}));
  return run_kernels(second, feeds);
}

TEST(AttentionOfUnknownSizes, HasTheSecondDerivativesOfKnownOnesOrRefusesThemByName) {
  constexpr unsigned kSeed = 7;
  std::mt19937 words(kSeed);
  int num_computed = 0, num_refused = 0;
  for (int i = 0; i < 400; ++i) {
    const Trial trial = drawn_trial(words);
    SCOPED_TRACE(text_of("seed ", kSeed, ", trial ", i, ": q ", trial.told[0], ", k ", trial.told[1], ", v ",
                         trial.told[2], ", lengths ", trial.told[3], ", mask ", trial.told[4], ", causal ",
                         trial.causal, ", window ", trial.windowed, ", lengths ", trial.has_lengths, ", mask ",
                         trial.mask));
    bool is_refused = false;
    std::vector<HostTensor> found;
    try {
      found = second_derivatives(trial, trial.told, is_refused);
    } catch (const ShapeError& error) {
      // Where no number of heads is told, they are taken to be as many, and held to it.
      EXPECT_TRUE(trial.has_groups && contains(error.what(), "built without numbers of heads")) << error.what();
      continue;
    }
    ++(is_refused ? num_refused : num_computed);
    if (is_refused) continue;
    bool is_known_refused = false;
    const std::vector<HostTensor> wanted = second_derivatives(trial, trial.known, is_known_refused);
    ASSERT_FALSE(is_known_refused);
    for (std::size_t j = 0; j < wanted.size(); ++j) EXPECT_TRUE(bitwise_equal(found[j], wanted[j])) << j;
  }
  EXPECT_GT(num_computed, 100);
  EXPECT_GT(num_refused, 50);
}

TEST(AttentionOfUnknownSizes, IsAddedToWhatItsQueriesAreMadeOf) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 3, 8}), memory = placeholder(graph, "memory", {4, 5, 8}),
              token = placeholder(graph, "token", {kDynamic, 1, 8});
  EXPECT_EQ((x + multi_head_attention(x, memory, {.heads = 2})).type().text(), "f32[?,3,8]");
  const KeyValueCache cache = key_value_cache(graph, {.batch = 4, .heads = 2, .head_width = 4, .capacity = 6});
  const Value position = placeholder(graph, "position", {}, Dtype::i64);
  const Value next =
      transformer_block(token, {.attention = {.heads = 2, .causal = true, .cache = cache, .position = position}});
  EXPECT_EQ(next.type().text(), "f32[?,1,8]");
  const Value q = placeholder(graph, "q", {kDynamic, 2, 3, 4}), k = placeholder(graph, "k", {4, 2, 5, 4});
  const Value y = q + attention(q, k, k);
  EXPECT_EQ(y.type().text(), "f32[?,2,3,4]");
  // What is fed is held to what k knows.
  Feeds feeds;
  feeds.emplace(q, waves_in({4, 2, 3, 4}, 0));
  feeds.emplace(k, waves_in({4, 2, 5, 4}, 1));
  EXPECT_EQ(run_kernels({y}, feeds)[0].type().text(), "f32[4,2,3,4]");
  feeds.erase(q);
  feeds.emplace(q, waves_in({3, 2, 3, 4}, 0));
  EXPECT_THROW(run_kernels({y}, feeds), ShapeError);
}

}  // namespace
}  // namespace sectionflow::testing_support

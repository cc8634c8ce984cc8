// Random numbers under the shape of a value, and draws of classes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/random.h"
#include "graph/ops/unary.h"
#include "op_case/case_values.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/moved.h"
#include "tests/support/tolerance.h"

namespace sectionflow {
namespace {

using namespace testing_support;

constexpr RandomAddress kDrawAddress{.seed = 0x123456789ABCDEF0, .node = 0, .step = 42};

TEST(RandomLike, NumbersAreThoseOfAKnownShape) {
  Graph graph, other;
  const Value x = placeholder(graph, "x", {kDynamic, 3}, Dtype::i32);
  const std::vector<Value> like = {random_uniform_like(x, {.low = -1, .high = 4}),
                                   random_normal_like(x, {.mean = 2, .stddev = 3})};
  const std::vector<Value> known = {random_uniform(other, {37, 3}, {.low = -1, .high = 4}),
                                    random_normal(other, {37, 3}, {.mean = 2, .stddev = 3})};
  EXPECT_EQ(like[0].type().text(), "f32[?,3]");
  Feeds feeds;
  feeds.emplace(x, HostTensor(Dtype::i32, {37, 3}));
  const auto found = run_kernels(like, feeds, {.random = kDrawAddress});
  const auto wanted = run_kernels(known, {}, {.random = kDrawAddress});
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(found[i], wanted[i]));
}

TEST(RandomLike, GumbelNumbersAreMadeOfTheWordsOfTheirAddress) {
  Graph graph;
  const Value y = random_gumbel_like(fill(graph, {100'003}, 0));
  const HostTensor found = std::move(run_kernels({y}, {}, {.random = kDrawAddress})[0]);
  double mean = 0, squares = 0;
  for (std::size_t e = 0; e < 100'003; ++e) {
    const std::uint32_t word = random_words(kDrawAddress, e / 4)[e % 4];
    const double v = std::min(static_cast<float>(word >> 1) * 0x1p-31F + 0x1p-33F, 1 - 0x1p-24F);
    ASSERT_NEAR(found.values<float>()[e], -std::log(-std::log1p(-v)), 4e-6) << "element " << e;
    mean += found.values<float>()[e] / 100'003.0;
    squares += found.values<float>()[e] * found.values<float>()[e] / 100'003.0;
  }
  EXPECT_NEAR(mean, std::numbers::egamma, 0.02);
  EXPECT_NEAR(squares - mean * mean, std::numbers::pi * std::numbers::pi / 6, 0.05);
}

TEST(RandomLike, OtherOptionsAreRefused) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  expect_refused<ArgumentError>([&] { random_uniform_like(x, {.low = 1, .high = 1}); },
                                "random_like 'random_uniform_like'", {"low < high"});
  expect_refused<ArgumentError>([&] { random_normal_like(x, {.stddev = 0}); }, "random_like 'random_normal_like'",
                                {"stddev 0"});
  EXPECT_EQ(graph.num_nodes(), 1);
}

/// The class at which the sum of probabilities exceeds the number that draw `i` is made of.
std::int32_t class_of(const Doubles& row, std::size_t i) {
  const auto words = random_words(kDrawAddress, i);
  const double part = (std::ldexp(words[0] >> 5, 26) + (words[1] >> 6)) * 0x1p-53;
  const double largest = *std::ranges::max_element(row);
  double total = 0, sum = 0;
  for (const double x : row) total += std::exp(x - largest);
  for (std::size_t c = 0; c < row.size(); ++c) {
    sum += std::exp(row[c] - largest);
    if (sum > part * total) return static_cast<std::int32_t>(c);
  }
  return -2;
}

void expect_classes(const Shape& shape, std::int64_t draws, Dtype dtype) {
  SCOPED_TRACE(text_of(shape, " ", draws, " ", dtype_name(dtype)));
  Doubles numbers(static_cast<std::size_t>(shape.num_elements()));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i * 37 % 101) / 16 - 3;
  Graph graph;
  const Value logits = placeholder(graph, "logits", {kDynamic, shape[1]}, dtype);
  const Value y = categorical(logits, {.draws = draws});
  Feeds feeds;
  feeds.emplace(logits, op_cases::tensor_of({dtype, shape}, numbers));
  const auto columns = static_cast<std::ptrdiff_t>(shape[1]);
  int wrong = 0;
  for (const int threads : {1, 2, 3}) {
    const HostTensor found = std::move(run_kernels({y}, feeds, {.threads = threads, .random = kDrawAddress})[0]);
    const auto of_row = std::max<std::int64_t>(1, draws);
    for (std::int64_t i = 0; i < found.num_elements(); ++i) {
      const auto first = numbers.begin() + static_cast<std::ptrdiff_t>(i / of_row) * columns;
      const Doubles row(first, first + columns);
      wrong += found.values<std::int32_t>()[static_cast<std::size_t>(i)] != class_of(row, static_cast<std::size_t>(i));
    }
  }
  // Probabilities in f32 err by less than a millionth: a draw in many may fall to a neighbour.
  EXPECT_LE(wrong, 3);
}

TEST(Categorical, ADrawIsDecidedByTheNumberOfItsOwnAddress) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    expect_classes({301, 7}, 0, dtype);
    expect_classes({4, 1}, 3, dtype);
    expect_classes({3, 1000}, 50, dtype);
    expect_classes({2, 5003}, 300, dtype);
  }
}

TEST(Categorical, ClassesComeAsOftenAsTheirProbabilities) {
  constexpr std::int64_t kDraws = 200'000;
  const std::vector<float> p = {0.5F, 0.25F, 0, 0.2F, 0.05F};
  Graph graph;
  const Value y = categorical(log(constant(graph, HostTensor::of<float>({1, 5}, p))), {.draws = kDraws});
  std::vector<double> counts(5);
  const HostTensor drawn = std::move(run_kernels({y}, {}, {.random = kDrawAddress})[0]);
  for (const std::int32_t c : drawn.values<std::int32_t>()) counts.at(static_cast<std::size_t>(c)) += 1.0 / kDraws;
  for (std::size_t c = 0; c < 5; ++c) EXPECT_NEAR(counts[c], p[c], 5 * std::sqrt(p[c] / kDraws)) << "class " << c;
  EXPECT_EQ(counts[2], 0);
}

TEST(Categorical, RowsWithoutADistributionGiveNoClass) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Graph graph;
  const Value x = constant(
      graph, HostTensor::of<float>({5, 2}, {NAN, 1, 1, NAN, -kInfinity, -kInfinity, 1, kInfinity, -kInfinity, 3}));
  EXPECT_EQ(doubles_of(run_kernels({categorical(x)}, {})[0]), (Doubles{-1, -1, -1, -1, 1}));
}

TEST(Categorical, AReplayDrawsTheSame) {
  Graph graph;
  const Value x = random_normal(graph, {40, 300});
  const std::vector<Value> y = {categorical(x, {.draws = 5}), random_gumbel_like(x)};
  const auto first = run_kernels(y, {});
  const auto replayed = run_kernels(y, {}, {.replay = true, .garbage = 0, .address_seed = 3});
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(first[i], replayed[i]));
}

TEST(CategoricalShapes, AreRowsAndDraws) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 4, 3}), none = placeholder(graph, "none", {2, 0});
  EXPECT_EQ(categorical(x).type().text(), "i32[?,4]");
  EXPECT_EQ(categorical(x, {.draws = 1}).type().text(), "i32[?,4,1]");
  const int before = graph.num_nodes();
  expect_refused<ArgumentError>([&] { categorical(x, {.draws = -1}); }, "categorical 'categorical_2'", {"draws is -1"});
  expect_refused<ShapeError>([&] { categorical(none); }, "categorical 'categorical_2'", {"f32[2,0]", "C >= 1"});
  expect_refused<ArgumentError>([&] { categorical(cast(x, Dtype::f64)); }, "categorical 'categorical_2'", {"f64"});
  EXPECT_EQ(graph.num_nodes(), before + 1);
  const HostTensor empty = std::move(run_kernels({categorical(fill(graph, {0, 3}, 0), {.draws = 2})}, {})[0]);
  EXPECT_EQ(empty.shape(), (Shape{0, 2}));
}

}  // namespace
}  // namespace sectionflow

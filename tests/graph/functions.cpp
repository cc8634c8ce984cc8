// Reductions that are composed: values and gradients beside formulas in double.
#include "graph/functions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "graph/op_def.h"
#include "tests/graph/functions_case.h"

namespace sectionflow::function_case {
namespace {

using namespace testing_support;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();

double logarithm_of_sum(const Doubles& xs) {
  const double largest = *std::ranges::max_element(xs);
  double sum = 0;
  for (const double x : xs) sum += std::exp(x - largest);
  return largest + std::log(sum);
}
double product_of(const Doubles& xs) {
  double product = 1;
  for (const double x : xs) product *= x;
  return product;
}
double variance_of(const Doubles& xs) {
  double mean = 0, squares = 0;
  for (const double x : xs) mean += x / static_cast<double>(xs.size());
  for (const double x : xs) squares += (x - mean) * (x - mean);
  return squares / static_cast<double>(xs.size());
}

struct Reduced {
  const char* name;
  Value (*build)(Value, ReduceOptions);
  double (*reference)(const Doubles&);
  double low, high;
};
const Reduced kReductions[] = {
    {"logsumexp", [](Value x, ReduceOptions o) { return logsumexp(x, std::move(o)); }, logarithm_of_sum, -4, 4},
    {"prod", [](Value x, ReduceOptions o) { return reduce_prod(x, std::move(o)); }, product_of, -1.5, 1.5},
    {"variance", [](Value x, ReduceOptions o) { return reduce_variance(x, std::move(o)); }, variance_of, -2, 2},
    {"mean_of_moments", [](Value x, ReduceOptions o) { return moments(x, std::move(o)).mean; },
     [](const Doubles& xs) {
       double sum = 0;
       for (const double x : xs) sum += x;
       return sum / static_cast<double>(xs.size());
     },
     -2, 2},
};

std::vector<OpCase> reduction_cases() {
  struct Axes {
    const char* name;
    Shape shape;
    std::vector<int> axes;
    bool keep_dims = false, dynamic_batch = true;
  };
  const Axes table[] = {{"rows", {5, 7}, {-1}},
                        {"rows_kept", {5, 7}, {1}, true},
                        {"columns", {6, 5}, {0}, false, false},
                        {"all", {3, 4}, {}, false, false},
                        {"all_kept", {3, 4}, {}, true, false},
                        {"middle", {2, 9, 3}, {1}},
                        {"ends", {3, 4, 5}, {2, 0}, false, false},
                        {"last_two", {3, 4, 5}, {-1, -2}},
                        {"of_one", {4, 1}, {1}},
                        {"scalar", {}, {}, false, false},
                        {"empty", {0, 5}, {1}},
                        {"many", {700, 33}, {1}}};
  std::vector<OpCase> all;
  for (const Reduced& reduced : kReductions) {
    for (const Axes& axes : table) {
      const ReduceOptions options{.axes = axes.axes, .keep_dims = axes.keep_dims};
      all.push_back(
          {.name = std::string(reduced.name) + "_" + axes.name,
           .inputs = {input(axes.shape, reduced.low, reduced.high)},
           .build = [=, &reduced](Graph&,
                                  const std::vector<Value>& in) { return std::vector{reduced.build(in[0], options)}; },
           .reference =
               [=, &reduced](const std::vector<Doubles>& in) {
                 Doubles y;
                 for (const Doubles& xs : groups_of(in[0], axes.shape, axes.axes)) {
                   y.push_back(reduced.reference(xs));
                 }
                 return std::vector<Doubles>{y};
               },
           .tolerance = {.relative = 17, .absolute = 4},
           .dynamic_batch = axes.dynamic_batch && axes.shape.rank() > 1,
           .same_bits_for_any_threads = true});
      if (axes.name == std::string("last_two")) all.push_back(in_bf16(all.back(), {}, 8));
    }
  }
  return all;
}

class ComposedReductions : public testing::TestWithParam<OpCase> {};
TEST_P(ComposedReductions, MatchTheirFormulasWithTheirGradients) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, ComposedReductions, testing::ValuesIn(reduction_cases()), case_name);

Value of_rows(Value x) {
  return logsumexp(x, {.axes = {-1}});
}

TEST(Logsumexp, OfInfinitiesIsWhatTheSumIsWithFiniteGradientsWhereNothingIsPossible) {
  const Found found = found_of(of_rows, {5, 3},
                               {-kInfinity, -kInfinity, -kInfinity,  //
                                1, -kInfinity, 1,                    //
                                -kInfinity, kInfinity, 2,            //
                                kNoNumber, 1, 2,                     //
                                kNoNumber, kInfinity, -kInfinity});
  EXPECT_EQ(found.values[0], -kInfinity);
  EXPECT_NEAR(found.values[1], 1 + std::log(2.0), 2e-7);
  EXPECT_EQ(found.values[2], kInfinity);
  EXPECT_TRUE(std::isnan(found.values[3]));
  EXPECT_TRUE(std::isnan(found.values[4]));
  const Doubles& slopes = found.gradient;
  EXPECT_EQ(Doubles(slopes.begin(), slopes.begin() + 6), (Doubles{0, 0, 0, 0.5, 0, 0.5}));
  EXPECT_TRUE(std::isnan(slopes[7]));
  EXPECT_TRUE(std::isnan(slopes[9]));
}

TEST(Logsumexp, NeitherOverflowsNorUnderflows) {
  for (const float shift : {0.0F, 1e3F, -1e3F, 1e30F, -1e30F, 3e38F, -3e38F}) {
    const Found found = found_of(of_rows, {1, 4}, {shift, shift, shift, shift});
    EXPECT_NEAR(found.values[0], shift + std::log(4.0), 4 * kF32Epsilon * (1 + std::abs(shift + std::log(4.0))));
    EXPECT_EQ(found.gradient, (Doubles{0.25, 0.25, 0.25, 0.25}));
  }
  const Found apart = found_of(of_rows, {1, 2}, {3e38F, -3e38F});
  EXPECT_EQ(apart.values[0], 3e38F);
  EXPECT_EQ(apart.gradient, (Doubles{1, 0}));
}

TEST(Logsumexp, ErrsByFourEpsilonsOfOneAndItself) {
  double worst = 0;
  for (const std::size_t count : {1, 3, 64, 1000}) {
    for (const float scale : {0.01F, 1.0F, 8.0F, 100.0F}) {
      std::vector<float> x;
      for (std::size_t i = 0; i < count; ++i) x.push_back(scale * static_cast<float>(std::sin(1.7 * double(i) + 1)));
      const auto n = static_cast<std::int64_t>(count);
      const double wanted = logarithm_of_sum(Doubles(x.begin(), x.end()));
      const double error = std::abs(found_of(of_rows, {1, n}, x).values[0] - wanted);
      worst = std::max(worst, error / (kF32Epsilon * (1 + std::abs(wanted))));
    }
  }
  RecordProperty("worst_epsilons", std::to_string(worst));
  EXPECT_LE(worst, 4);
}

TEST(ReduceProd, HasExactGradientsWhereElementsAreZero) {
  const Found found = found_of([](Value x) { return reduce_prod(x, {.axes = {1}}); }, {4, 5}, {2, 3, 0, 4, 5,  //
                                                                                               0, 3, 0, 4, 5,  //
                                                                                               1, 2, 3, 4, 5,  //
                                                                                               0, 0, 0, 0, 0});
  EXPECT_EQ(found.values, (Doubles{0, 0, 120, 0}));
  EXPECT_EQ(found.gradient, (Doubles{0,   0,  120, 0,  0,   //
                                     0,   0,  0,   0,  0,   //
                                     120, 60, 40,  30, 24,  //
                                     0,   0,  0,   0,  0}));
}

TEST(ReduceProd, OfAnySizeIsTheProduct) {
  for (std::int64_t count = 1; count <= 70; ++count) {
    std::vector<float> x(static_cast<std::size_t>(count), 1);
    x.front() = 3;
    x.back() = count == 1 ? 3.0F : -2.0F;
    x[x.size() / 2] *= 0.5F;
    const double wanted = product_of(Doubles(x.begin(), x.end()));
    const Found found = found_of([](Value v) { return reduce_prod(v); }, {count}, x);
    EXPECT_EQ(found.values, (Doubles{wanted})) << count;
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(found.gradient[i], wanted / x[i]) << count;
  }
}

TEST(Moments, OfLargeMeansLoseNoDigitsOfTheVariance) {
  const Found found = found_of([](Value x) { return reduce_variance(x); }, {4}, {65536, 65537, 65538, 65539});
  EXPECT_EQ(found.values, (Doubles{1.25}));
  EXPECT_EQ(found.gradient, (Doubles{-0.75, -0.25, 0.25, 0.75}));
}

TEST(ReduceAnyAndAll, AreTheTruthOfSeveral) {
  const TensorType type{Dtype::boolean, {4, 3}};
  const Doubles x = {0, 0, 0, 1, 0, 1, 1, 1, 1, 0, 1, 0};
  const auto any = [](Value v) { return reduce_any(v, {.axes = {1}}); };
  const auto all = [](Value v) { return reduce_all(v, {.axes = {-1}, .keep_dims = true}); };
  for (const Shape& declared : {Shape{4, 3}, Shape{kDynamic, 3}}) {
    const HostTensor some = result_of(any, type, x, declared), every = result_of(all, type, x, declared);
    EXPECT_EQ(some.type(), (TensorType{Dtype::boolean, {4}}));
    EXPECT_EQ(doubles_of(some), (Doubles{0, 1, 1, 1}));
    EXPECT_EQ(every.type(), (TensorType{Dtype::boolean, {4, 1}}));
    EXPECT_EQ(doubles_of(every), (Doubles{0, 0, 1, 0}));
  }
  EXPECT_EQ(doubles_of(result_of([](Value v) { return reduce_any(v); }, type, x)), (Doubles{1}));
  EXPECT_EQ(doubles_of(result_of([](Value v) { return reduce_all(v); }, type, x)), (Doubles{0}));
  EXPECT_EQ(result_of(any, {Dtype::boolean, {0, 3}}, {}, {kDynamic, 3}).shape(), (Shape{0}));
}

TEST(ComposedReductions, RefuseWhatDoesNotFitAndAddNothing) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 4}), whole = placeholder(graph, "whole", {4}, Dtype::i32);
  const Value mask = placeholder(graph, "mask", {4}, Dtype::boolean), none = placeholder(graph, "none", {3, 0});
  const int before = graph.num_nodes();
  for (const Reduced& reduced : kReductions) {
    for (const Value& wrong : {whole, mask}) {
      EXPECT_THAT([&] { (void)reduced.build(wrong, {}); },
                  ThrowsMessage<ArgumentError>(AllOf(HasSubstr("'" + wrong.name() + "'"), HasSubstr("wanted f32"))));
    }
    EXPECT_THROW(reduced.build(x, {.axes = {2}}), ShapeError);
    EXPECT_THROW(reduced.build(x, {.axes = {1, -1}}), ShapeError);
    EXPECT_THROW(reduced.build(none, {.axes = {1}}), ShapeError);
  }
  EXPECT_THAT([&] { (void)reduce_prod(x, {.axes = {0}}); },
              ThrowsMessage<ShapeError>(AllOf(HasSubstr("'x' is f32[?,4]"), HasSubstr("known size along axis 0"))));
  for (const auto& truth : {reduce_any, reduce_all}) {
    EXPECT_THAT([&] { (void)truth(x, {}, {}); },
                ThrowsMessage<ArgumentError>(AllOf(HasSubstr("'x' is f32[?,4]"), HasSubstr("wanted boolean"))));
    EXPECT_THROW(truth(mask, {.axes = {1}}, {}), ShapeError);
  }
  EXPECT_EQ(graph.num_nodes(), before);
  EXPECT_TRUE(graph.scope_names().empty());
}

}  // namespace
}  // namespace sectionflow::function_case

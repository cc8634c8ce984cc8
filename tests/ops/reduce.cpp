#include "graph/ops/reduce.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "autodiff/gradients.h"
#include "graph/nodes/reduce.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "tests/support/op_case.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// Where each element of x goes in the result.
std::vector<std::size_t> result_of_elements(const Shape& x, const std::vector<bool>& reduced) {
  std::vector<std::size_t> results(static_cast<std::size_t>(x.num_elements()));
  for (std::size_t i = 0; i < results.size(); ++i) {
    std::int64_t rest = static_cast<std::int64_t>(i), result = 0, stride = 1;
    for (int axis = x.rank() - 1; axis >= 0; --axis) {
      if (!reduced[axis]) {
        result += rest % x[axis] * stride;
        stride *= x[axis];
      }
      rest /= x[axis];
    }
    results[i] = static_cast<std::size_t>(result);
  }
  return results;
}

Doubles reduced(const Doubles& x, const Shape& shape, const ReduceNodeOptions& options) {
  const std::vector<bool> axes = reduced_axes(options.reduce, shape.rank(), "test");
  std::size_t num_results = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) num_results *= axes[axis] ? 1 : static_cast<std::size_t>(shape[axis]);
  const double least = options.reduction == Reduction::max ? -INFINITY : INFINITY;
  Doubles y(num_results, is_choice(options.reduction) ? least : 0.0);
  const std::vector<std::size_t> results = result_of_elements(shape, axes);
  for (std::size_t i = 0; i < x.size(); ++i) {
    double& result = y[results[i]];
    result = options.reduction == Reduction::max   ? std::max(result, x[i])
             : options.reduction == Reduction::min ? std::min(result, x[i])
                                                   : result + x[i];
  }
  if (options.reduction == Reduction::mean) {
    for (double& value : y) value /= static_cast<double>(x.size() / y.size());
  }
  return y;
}

struct ReductionName {
  const char* name;
  Reduction reduction;
  Value (*build)(Value, ReduceOptions, Where);
};
const ReductionName kReductions[] = {{"sum", Reduction::sum, reduce_sum},
                                     {"mean", Reduction::mean, reduce_mean},
                                     {"max", Reduction::max, reduce_max},
                                     {"min", Reduction::min, reduce_min}};

struct ReduceShape {
  const char* name;
  Shape x;
  ReduceOptions options;
};
const ReduceShape kReduceShapes[] = {
    {"scalar", {}, {}},
    {"one_element", {1, 1}, {.axes = {0}}},
    {"all", {3, 5, 2}, {}},
    {"all_kept_dims", {3, 5, 2}, {.keep_dims = true}},
    {"rows", {4, 10}, {.axes = {-1}}},
    {"many_rows", {130, 33}, {.axes = {1}, .keep_dims = true}},
    {"columns", {9, 6}, {.axes = {0}}},
    {"many_columns", {700, 5}, {.axes = {0}}},
    {"height_and_width", {3, 7, 7, 16}, {.axes = {1, 2}}},
    {"height_and_width_of_planes", {3, 16, 7, 7}, {.axes = {2, 3}}},
    {"all_but_channels", {6, 7, 7, 3}, {.axes = {0, 1, 2}}},
    {"all_but_planes", {6, 3, 7, 7}, {.axes = {0, 2, 3}, .keep_dims = true}},
    {"alternating", {3, 4, 2, 5}, {.axes = {0, 2}}},
    {"other_alternating", {3, 4, 2, 5}, {.axes = {-1, 1}, .keep_dims = true}},
    {"six_dims", {2, 3, 2, 3, 2, 3}, {.axes = {0, 2, 4}}},
    {"six_dims_last", {2, 3, 2, 3, 2, 3}, {.axes = {1, 3, 5}}},
    {"axis_of_one", {5, 1, 3}, {.axes = {1}}},
    {"no_results", {0, 3}, {.axes = {1}}},
    {"no_results_inside", {4, 0, 3}, {.axes = {2}, .keep_dims = true}},
    {"long_rows", {3, 20011}, {.axes = {1}}},
    {"long_rows_of_packs", {3, 20012}, {.axes = {1}}},
    {"long_columns", {3001, 9}, {.axes = {0}}},
    {"long_columns_of_packs", {3001, 12}, {.axes = {0}}},
    {"wide_columns", {150, 1100}, {.axes = {0}}},
    {"all_of_many", {40009}, {}},
    {"many_short", {5003, 3}, {.axes = {1}}},
};

std::vector<OpCase> reduce_cases() {
  std::vector<OpCase> cases;
  for (const ReductionName& reduction : kReductions) {
    for (const ReduceShape& shape : kReduceShapes) {
      CaseInput x = input(shape.x);
      // The step of the central difference must not change which element is the largest or smallest.
      x.distinct = is_choice(reduction.reduction);
      cases.push_back(
          {.name = std::string(reduction.name) + "_" + shape.name,
           .inputs = {x},
           .build = [build = reduction.build, options = shape.options](
                        Graph&,
                        const std::vector<Value>& in) { return std::vector{build(in[0], options, Where::here())}; },
           .reference =
               [x_shape = shape.x, options = ReduceNodeOptions{reduction.reduction, shape.options}](
                   const std::vector<Doubles>& in) { return std::vector<Doubles>{reduced(in[0], x_shape, options)}; },
           .tolerance = {.relative = 0.51, .absolute = 1e-3},
           .step = 1e-6,
           .dynamic_batch = shape.x.rank() > 0 && shape.x[0] != 1,
           .same_bits_for_any_threads = true});
      // Values that differ in f32 may be one in bf16, and share the gradient.
      if (!x.distinct && shape.x.num_elements() < 1000) cases.push_back(in_bf16(cases.back()));
    }
  }
  return cases;
}

class Reduce : public testing::TestWithParam<OpCase> {};
TEST_P(Reduce, MatchesTheReferenceWithItsGradient) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, Reduce, testing::ValuesIn(reduce_cases()), case_name);

TEST(ReduceExactly, BitsDoNotDependOnTheThreadCount) {
  const Shape shape{41, 63, 65};
  HostTensor content(Dtype::f32, shape);
  for (int i = 0; float& element : content.values<float>()) element = std::sin(static_cast<float>(++i));
  Graph graph;
  const Value x = placeholder(graph, "x", shape);
  std::vector<Value> fetches;
  for (const std::vector<int>& axes : std::vector<std::vector<int>>{{}, {0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}}) {
    const Value sum = reduce_sum(x, {.axes = axes}), largest = reduce_max(x, {.axes = axes});
    fetches.insert(fetches.end(), {sum, largest});
    fetches.push_back(gradients(reduce_sum(sum * sum) + reduce_sum(largest), {x})[0]);
  }
  Feeds feeds;
  feeds.emplace(x, std::move(content));
  const auto one = run_kernels(fetches, feeds, {.threads = 1});
  for (int threads : {2, 3, 7}) {
    const auto several = run_kernels(fetches, feeds, {.threads = threads});
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(same_bits(one[i], several[i])) << "fetch " << i;
  }
}

TEST(ReduceExactly, ALongSumLosesNothing) {
  Graph graph;
  constexpr std::int64_t kCount = 20'000'003;  // beyond 2^24, where f32 stops counting
  const auto results = run_kernels({reduce_sum(fill(graph, {kCount}, 1)), mean(fill(graph, {kCount}, 0.1))}, {});
  EXPECT_EQ(results[0].item<float>(), 20'000'003.0F);
  EXPECT_EQ(results[1].item<float>(), 0.1F);
}

TEST(ReduceExactly, ANaNIsMaximumAndMinimumWhereverItLies) {
  for (const Shape& shape : {Shape{40, 3}, Shape{3, 40}}) {
    for (std::int64_t place : {0, 1, 17, 119}) {
      HostTensor content(Dtype::f32, shape);
      content.values<float>()[static_cast<std::size_t>(place)] = NAN;
      Graph graph;
      const Value x = constant(graph, std::move(content));
      for (auto* reduction : {reduce_max, reduce_min}) {
        const auto results = run_kernels({reduction(x, {}, {}), reduction(x, {.axes = {1}}, {})}, {});
        EXPECT_TRUE(std::isnan(results[0].item<float>()));
        const auto rows = results[1].values<float>();
        EXPECT_EQ(std::count_if(rows.begin(), rows.end(), [](float y) { return std::isnan(y); }), 1);
      }
    }
  }
}

TEST(ReduceExactly, TheMaximumOrMinimumOfInfinitiesIsTheirs) {
  Graph graph;
  EXPECT_EQ(run_kernels({reduce_max(fill(graph, {19}, -INFINITY))}, {})[0].item<float>(), -INFINITY);
  EXPECT_EQ(run_kernels({reduce_min(fill(graph, {19}, INFINITY))}, {})[0].item<float>(), INFINITY);
}

// Denormal numbers count as zero, so that which of them, and of zeros, is the result is a matter of order: it must be
// one order in the body and in the tail of a vector loop, and in rows that are taken together or one by one.
TEST(ReduceExactly, EqualColumnsAndEqualRowsGiveTheSameBitsOfDenormals) {
  constexpr std::uint32_t kDenormals[] = {0x000B0000, 0x80120000, 0x00000000, 0x80000000, 0x007F0000};
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    for (const std::uint32_t first : kDenormals) {
      for (const std::uint32_t second : kDenormals) {
        const auto content = [&](const Shape& shape, std::int64_t axis) {
          HostTensor x(dtype, shape);
          for (std::int64_t i = 0; i < shape.num_elements(); ++i) {
            const std::int64_t place = axis == 0 ? i / shape[1] : i % shape[1];
            const std::uint32_t bits = place % 2 == 0 ? first : second;
            if (dtype == Dtype::f32) {
              x.values<float>()[static_cast<std::size_t>(i)] = std::bit_cast<float>(bits);
            } else {
              x.values<BFloat16>()[static_cast<std::size_t>(i)] =
                  std::bit_cast<BFloat16>(static_cast<std::uint16_t>(bits >> 16));
            }
          }
          return x;
        };
        Graph graph;
        const Value columns = constant(graph, content({2, 67}, 0)), rows = constant(graph, content({83, 2}, 1));
        for (auto* reduction : {reduce_max, reduce_min}) {
          for (const HostTensor& y :
               run_kernels({reduction(columns, {.axes = {0}}, {}), reduction(rows, {.axes = {1}}, {})}, {})) {
            const std::size_t size = y.num_bytes() / static_cast<std::size_t>(y.num_elements());
            for (std::int64_t i = 1; i < y.num_elements(); ++i) {
              ASSERT_EQ(std::memcmp(y.bytes(), y.bytes() + static_cast<std::size_t>(i) * size, size), 0)
                  << y.type().text() << " of " << first << " and " << second << ", element " << i;
            }
          }
        }
      }
    }
  }
}

TEST(ReduceExactly, EqualMaximaShareTheGradient) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 4});
  Feeds feeds;
  feeds.emplace(x, HostTensor::of<float>({2, 4}, {1, 3, 3, 2, 5, 5, 5, 5}));
  const Value loss = reduce_sum(reduce_max(x, {.axes = {1}}));
  for (InPlaceUse in_place : {InPlaceUse::none, InPlaceUse::last_pairs}) {
    const auto dx = run_kernels({gradients(loss, {x})[0]}, feeds, {.in_place = in_place});
    EXPECT_TRUE(same_bits(dx[0], HostTensor::of<float>({2, 4}, {0, 0.5F, 0.5F, 0, 0.25F, 0.25F, 0.25F, 0.25F})));
  }
}

TEST(ReduceExactly, EqualMinimaShareTheGradient) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 4});
  Feeds feeds;
  feeds.emplace(x, HostTensor::of<float>({2, 4}, {1, 3, 1, 2, -5, 5, NAN, 5}));
  const auto dx = run_kernels({gradients(reduce_sum(reduce_min(x, {.axes = {1}})), {x})[0]}, feeds);
  EXPECT_TRUE(same_bits(dx[0], HostTensor::of<float>({2, 4}, {0.5F, 0, 0.5F, 0, 0, 0, 1, 0})));
}

TEST(ReduceExactly, GradientsOfNoResultsAreEmpty) {
  Graph graph;
  const Value x = fill(graph, {0, 3}, 1), y = fill(graph, {0}, 1);
  const ReduceOptions rows{.axes = {1}};
  const auto results =
      run_kernels({reduce_grad(y, x, {Reduction::sum, rows}), reduce_grad(y, x, {Reduction::mean, rows}),
                   reduce_max_grad(y, x, y, {Reduction::max, rows})},
                  {});
  for (const HostTensor& dx : results) EXPECT_EQ(dx.shape(), (Shape{0, 3}));
}

TEST(ReduceExactly, ANaNTakesTheGradientOfItsMaximum) {
  Graph graph;
  const Value x = placeholder(graph, "x", {3});
  Feeds feeds;
  feeds.emplace(x, HostTensor::of<float>({3}, {1, NAN, 3}));
  const auto dx = run_kernels({gradients(reduce_max(x), {x})[0]}, feeds);
  EXPECT_TRUE(same_bits(dx[0], HostTensor::of<float>({3}, {0, 1, 0})));
}

OpCase global_norm_case(const std::string& name, std::vector<CaseInput> inputs) {
  return {.name = name,
          .inputs = std::move(inputs),
          .build = [](Graph&, const std::vector<Value>& in) { return std::vector{global_norm(in)}; },
          .reference =
              [](const std::vector<Doubles>& in) {
                double squares = 0;
                for (const Doubles& x : in) {
                  for (double element : x) squares += element * element;
                }
                return std::vector<Doubles>{{std::sqrt(squares)}};
              },
          .tolerance = {.relative = 1, .absolute = 0},
          .dynamic_batch = true,
          .same_bits_for_any_threads = true};
}

std::vector<OpCase> global_norm_cases() {
  return {global_norm_case("scalar", {input({})}),
          global_norm_case("vector", {input({7})}),
          global_norm_case("several",
                           {input({3, 3, 4, 5}), input({5}), input({17, 9}), input({}), input({3, 0}), input({31})}),
          global_norm_case("many_blocks", {input({40003}), input({200, 401})}),
          global_norm_case("squares_below_f32", {input({100}, -1e-30, 1e-30)}),
          global_norm_case("squares_beyond_f32", {input({100}, 1e30, 2e30), input({3})})};
}

class GlobalNormCases : public testing::TestWithParam<OpCase> {};
TEST_P(GlobalNormCases, EqualTheReferenceAndKeepTheirBits) {
  OpCase op_case = GetParam();
  // A step of 1e-5 is far more than such elements.
  if (op_case.name.starts_with("squares")) op_case.gradient_outputs = {};
  check(op_case);
}
INSTANTIATE_TEST_SUITE_P(Cases, GlobalNormCases, testing::ValuesIn(global_norm_cases()), case_name);

TEST(GlobalNorm, OfNoElementsIsZero) {
  Graph graph;
  EXPECT_EQ(run_kernels({global_norm({fill(graph, {0, 3}, 1)})}, {})[0].item<float>(), 0.0F);
}

TEST(GlobalNorm, OfZerosHasTheGradientZero) {
  Graph graph;
  const Value x = fill(graph, {3}, 0);
  EXPECT_TRUE(
      same_bits(run_kernels({gradients(global_norm({x}), {x})[0]}, {})[0], HostTensor::of<float>({3}, {0, 0, 0})));
}

TEST(GlobalNorm, ShowsWhatIsNoNumber) {
  Graph graph;
  const Value x = fill(graph, {3}, 1);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(run_kernels({global_norm({x, fill(graph, {2}, -infinity)})}, {})[0].item<float>(), infinity);
  EXPECT_TRUE(std::isnan(run_kernels({global_norm({fill(graph, {}, NAN), x})}, {})[0].item<float>()));
}

TEST(GlobalNorm, RefusedCallsAddNothing) {
  Graph graph, other;
  const Value x = placeholder(graph, "x", {3}), whole = placeholder(graph, "whole", {3}, Dtype::i32);
  const Value stranger = placeholder(other, "x", {3});
  const int before = graph.num_nodes();
  EXPECT_THROW(global_norm({}), ArgumentError);
  EXPECT_THROW(global_norm({x, whole}), ArgumentError);
  EXPECT_THROW(global_norm({x, stranger}), ArgumentError);
  EXPECT_EQ(graph.num_nodes(), before);
}

float scale_of(float norm, float max_norm) {
  Graph graph;
  return run_kernels({clip_scale(constant(graph, norm), max_norm)}, {})[0].item<float>();
}

TEST(ClipScale, IsOneUpToTheMaximumAndTheirRatioBeyond) {
  for (float norm : {0.0F, 1e-30F, 0.3F, 0.7F}) EXPECT_EQ(scale_of(norm, 0.7F), 1.0F);
  EXPECT_EQ(scale_of(2.0F, 0.5F), 0.25F);
  EXPECT_EQ(scale_of(3.0F, 0.7F), 0.7F / 3.0F);
  EXPECT_EQ(scale_of(3e37F, 1.0F), 1.0F / 3e37F);
}

TEST(ClipScale, OfWhatIsNoNumberIsNaN) {
  EXPECT_TRUE(std::isnan(scale_of(std::numeric_limits<float>::infinity(), 1)));
  EXPECT_TRUE(std::isnan(scale_of(NAN, 1)));
}

TEST(ClipScale, RefusedCallsAddNothing) {
  Graph graph;
  const Value norm = placeholder(graph, "norm", {}), wide = placeholder(graph, "wide", {2});
  const int before = graph.num_nodes();
  for (float max_norm : {0.0F, -1.0F, NAN, std::numeric_limits<float>::infinity()}) {
    EXPECT_THROW(clip_scale(norm, max_norm), ArgumentError) << max_norm;
  }
  EXPECT_THROW(clip_scale(wide, 1), ShapeError);
  EXPECT_EQ(graph.num_nodes(), before);
}

// Of 1 / norm: -x / norm^3.
TEST(ClipScale, HasAGradientWhereItClips) {
  Graph graph;
  const Value x = constant(graph, HostTensor::of<float>({3}, {3, 0, 4}));
  const auto gradient_of = [&](float max_norm) {
    const Value dx = gradients(clip_scale(global_norm({x}), max_norm) * 2.0F, {x})[0];
    return std::move(run_kernels({dx}, {})[0]);
  };
  EXPECT_TRUE(is_near(gradient_of(1), std::vector<double>{-0.048, 0, -0.064}, {}));
  EXPECT_TRUE(is_near(gradient_of(6), std::vector<double>{0, 0, 0}, {}));
}

}  // namespace

}  // namespace sectionflow

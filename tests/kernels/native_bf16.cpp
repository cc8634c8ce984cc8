// Kernels that take bf16 as it is compute what the kernels of f32 do between copies (kernels/widened_kernel.h), but for
// sums of products on tensor cores.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "autodiff/gradients.h"
#include "base/error.h"
#include "graph/nodes/arithmetic.h"
#include "graph/op_def.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/attention.h"
#include "graph/ops/basic.h"
#include "graph/ops/batch_norm.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/dropout.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layer_norm.h"
#include "graph/ops/pool.h"
#include "graph/ops/reduce.h"
#include "graph/ops/resize.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/tolerance.h"

namespace sectionflow::testing_support {
namespace {

/// A graph of bf16 with random feeds, infinities and NaN among them where they are asked for.
class Inputs {
 public:
  explicit Inputs(std::uint32_t seed) : random_(seed) {}

  Graph graph;
  Feeds feeds;
  std::vector<Value> differentiated;

  Value bf16(const Shape& shape, double low = -2, double high = 2) {
    HostTensor tensor(Dtype::bf16, shape);
    for (BFloat16& x : tensor.values<BFloat16>()) x = BFloat16(draw(low, high));
    return add(std::move(tensor));
  }
  /// With the numbers at which formulas take another way.
  Value extreme(const Shape& shape) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    constexpr float kSpecial[] = {
        kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), 0, -0.0F, 1e-40F, 3e38F, -3e38F, 88.5F, -88.5F};
    HostTensor tensor(Dtype::bf16, shape);
    std::size_t i = 0;
    for (BFloat16& x : tensor.values<BFloat16>()) x = BFloat16(i++ % 3 == 0 ? kSpecial[i % 10] : draw(-20, 20));
    return add(std::move(tensor));
  }
  Value f32(const Shape& shape, double low = -2, double high = 2) {
    HostTensor tensor(Dtype::f32, shape);
    for (float& x : tensor.values<float>()) x = draw(low, high);
    return add(std::move(tensor));
  }
  Value boolean(bool value) {
    HostTensor tensor(Dtype::boolean, {});
    tensor.values<bool>()[0] = value;
    return constant(graph, std::move(tensor));
  }

  /// y, then the gradients of a weighted sum of it.
  std::vector<Value> with_gradients(Value y) {
    const std::vector<Value> variables = differentiated;
    const Value weights = f32(y.shape());
    std::vector<Value> all = gradients(reduce_sum(mul(cast(y, Dtype::f32), weights)), variables);
    all.insert(all.begin(), y);
    return all;
  }

 private:
  float draw(double low, double high) { return static_cast<float>(low + (high - low) * (random_() * 0x1p-32)); }
  Value add(HostTensor tensor) {
    const Value placed = placeholder(graph, text_of("x", feeds.size()), tensor.shape(), tensor.dtype());
    feeds.emplace(placed, std::move(tensor));
    differentiated.push_back(placed);
    return placed;
  }

  std::mt19937 random_;
};

struct Line {
  const char* name;
  std::function<std::vector<Value>(Inputs&)> build;
};
std::ostream& operator<<(std::ostream& stream, const Line& line) {
  return stream << line.name;
}

/// Each function of one value, in whole packs, with a rest, and of special numbers.
template <class Function>
std::vector<Value> of_one(Inputs& in, const Function& function) {
  std::vector<Value> all;
  for (const Value& x : {in.bf16({64}, 0.1, 3), in.bf16({7, 13}, 0.1, 3), in.extreme({333})}) {
    in.differentiated = {x};
    for (const Value& value : in.with_gradients(function(x))) all.push_back(value);
  }
  return all;
}

template <class Function>
std::vector<Value> of_two(Inputs& in, const Function& function) {
  std::vector<Value> all;
  const std::pair<Shape, Shape> shapes[] = {
      {{6, 16}, {6, 16}}, {{5, 7}, {7}}, {{3, 1, 8}, {4, 8}}, {{3, 5, 4}, {}}, {{2, 40, 12}, {40, 1}}};
  for (const auto& [a_shape, b_shape] : shapes) {
    const Value a = in.bf16(a_shape), b = in.bf16(b_shape, 0.5, 2);
    in.differentiated = {a, b};
    for (const Value& value : in.with_gradients(function(a, b))) all.push_back(value);
  }
  const Value a = in.extreme({40, 5}), b = in.extreme({40, 5});
  in.differentiated = {a, b};
  for (const Value& value : in.with_gradients(function(a, b))) all.push_back(value);
  return all;
}

Line of_one(const char* name, Value (*function)(Value, Where)) {
  return {name, [=](Inputs& in) { return of_one(in, [=](Value x) { return function(x, Where::here()); }); }};
}
Line of_two(const char* name, Value (*function)(Value, Value, Where)) {
  return {name,
          [=](Inputs& in) { return of_two(in, [=](Value a, Value b) { return function(a, b, Where::here()); }); }};
}

std::vector<Value> normalized_channels(Inputs& in, const Shape& shape, bool training, BatchNormOptions options) {
  const Shape channels{shape[channel_axis(options.format)]};
  const Value x = in.bf16(shape), scale = in.f32(channels, 0.5, 2), shift = in.f32(channels);
  in.differentiated = {x, scale, shift};
  const auto result =
      batch_norm(x, scale, shift, in.f32(channels), in.f32(channels, 0.5, 2), in.boolean(training), options);
  in.differentiated = {x, scale, shift};
  std::vector<Value> all = in.with_gradients(result.y);
  all.push_back(result.mean);
  all.push_back(result.variance);
  return all;
}

std::vector<Value> normalized_rows(Inputs& in, const Shape& shape) {
  const Value x = in.bf16(shape), scale = in.f32({shape[-1]}, 0.5, 2), shift = in.f32({shape[-1]});
  return in.with_gradients(layer_norm(x, scale, shift));
}

std::vector<Value> attended(Inputs& in, const Shape& queries, const Shape& keys, bool causal) {
  const Value q = in.bf16(queries), k = in.bf16(keys), v = in.bf16(keys);
  return in.with_gradients(attention(q, k, v, {.causal = causal}));
}

std::vector<Line> arithmetic_lines() {
  return {
      of_one("relu", relu),
      of_one("tanh", tanh),
      of_one("sigmoid", sigmoid),
      of_one("silu", silu),
      {"gelu", [](Inputs& in) { return of_one(in, [](Value x) { return gelu(x); }); }},
      {"gelu_of_tanh",
       [](Inputs& in) { return of_one(in, [](Value x) { return gelu(x, {.approximation = Gelu::tanh}); }); }},
      of_one("neg", neg),
      of_one("square", square),
      of_one("sqrt", sqrt),
      of_one("rsqrt", rsqrt),
      of_one("exp", exp),
      of_one("log", log),
      {"clip", [](Inputs& in) { return of_one(in, [](Value x) { return clip(x, 0.5F, 1.5F); }); }},
      {"numbers", [](Inputs& in) { return of_one(in, [](Value x) { return (1.0F - x * 0.3F) / 7.0F + x; }); }},
      {"dropout",
       [](Inputs& in) { return of_one(in, [&](Value x) { return dropout(x, in.boolean(true), {.rate = 0.3F}); }); }},
      {"no_dropout", [](Inputs& in) { return of_one(in, [&](Value x) { return dropout(x, in.boolean(false)); }); }},
      of_two("add", add),
      of_two("sub", sub),
      of_two("mul", mul),
      of_two("div", div),
      of_two("maximum", maximum),
      of_two("minimum", minimum),
      {"select", [](Inputs& in) { return of_two(in, [](Value a, Value b) { return select(less(a, b), b, a); }); }},
      {"add_n", [](Inputs& in) {
         std::vector<Value> values;
         for (int i = 0; i < 40; ++i) values.push_back(in.bf16({9, 5}));
         std::vector<Value> few(values.begin(), values.begin() + 3);
         return std::vector{add_n(values), add_n(few), add_n({in.extreme({64}), in.extreme({64})}),
                            accumulate(accumulate(few[0], few[1], Dtype::f32), few[2], Dtype::bf16)};
       }}};
}

std::vector<Line> row_lines() {
  const auto bias = [](Inputs& in, const Shape& shape, DataFormat format) {
    const Value x = in.bf16(shape), b = in.bf16({shape[channel_axis(format)]});
    return in.with_gradients(bias_add(x, b, {.format = format}));
  };
  return {
      {"bias",
       [=](Inputs& in) {
         return bias(in, {70, 24}, DataFormat::nhwc);
       }},
      {"bias_of_many_rows",
       [=](Inputs& in) {
         return bias(in, {5000, 3}, DataFormat::nhwc);
       }},
      {"bias_nchw",
       [=](Inputs& in) {
         return bias(in, {3, 5, 6, 4}, DataFormat::nchw);
       }},
      {"softmax",
       [](Inputs& in) {
         return in.with_gradients(softmax(in.bf16({9, 77})));
       }},
      {"softmax_of_short_rows",
       [](Inputs& in) {
         return in.with_gradients(softmax(in.bf16({50, 7})));
       }},
      {"softmax_of_long_rows",
       [](Inputs& in) {
         return in.with_gradients(softmax(in.bf16({3, 1500})));
       }},
      {"log_softmax",
       [](Inputs& in) {
         return in.with_gradients(log_softmax(in.bf16({9, 77})));
       }},
      {"argmax",
       [](Inputs& in) {
         return std::vector{argmax(in.extreme({9, 77})), argmax(in.bf16({40, 3}))};
       }},
      {"layer_norm",
       [](Inputs& in) {
         return normalized_rows(in, {6, 7, 100});
       }},
      {"layer_norm_of_short_rows",
       [](Inputs& in) {
         return normalized_rows(in, {70, 8});
       }},
      {"layer_norm_of_long_rows",
       [](Inputs& in) {
         return normalized_rows(in, {3, 1100});
       }},
      {"batch_norm",
       [](Inputs& in) {
         return normalized_channels(in, {6, 5, 5, 24}, true, {});
       }},
      {"batch_norm_odd",
       [](Inputs& in) {
         return normalized_channels(in, {7, 3, 5}, true, {});
       }},
      {"batch_norm_running",
       [](Inputs& in) {
         return normalized_channels(in, {50, 12}, false, {});
       }},
      {"batch_norm_relu",
       [](Inputs& in) {
         return normalized_channels(in, {70, 9}, true, {.relu = true});
       }},
      {"batch_norm_nchw",
       [](Inputs& in) {
         return normalized_channels(in, {3, 5, 6, 7}, true, {.relu = true, .format = DataFormat::nchw});
       }},
      // No channels in eights: those are for tensor cores, whose factors are bf16 throughout (tests/ops/attention.cpp).
      {"attention",
       [](Inputs& in) {
         return attended(in, {2, 2, 9, 6}, {2, 2, 70, 6}, false);
       }},
      {"attention_causal",
       [](Inputs& in) {
         return attended(in, {1, 2, 70, 66}, {1, 2, 70, 66}, true);
       }},
      {"attention_of_many_channels",
       [](Inputs& in) {
         return attended(in, {1, 1, 9, 132}, {1, 1, 9, 132}, true);
       }},
  };
}

/// Rows of a table at random indices, some of them twice and some outside of it.
std::vector<Value> gathered(Inputs& in, std::int64_t row_length) {
  const Value table = in.bf16({7, row_length});
  HostTensor indices(Dtype::i32, {40});
  std::int32_t next = -1;
  for (std::int32_t& index : indices.values<std::int32_t>()) index = next = (next + 4) % 9;
  return in.with_gradients(gather(table, constant(in.graph, std::move(indices))));
}

std::vector<Value> reduced(Inputs& in, const Shape& shape, const std::vector<int>& axes) {
  std::vector<Value> all;
  for (auto* function : {reduce_sum, reduce_mean, reduce_max}) {
    const Value x = in.bf16(shape);
    in.differentiated = {x};
    for (const Value& value : in.with_gradients(function(x, {.axes = axes}, Where::here()))) all.push_back(value);
  }
  return all;
}

std::vector<Line> window_lines() {
  const Pool2dOptions overlapping{.window = {3, 3}, .stride = {2, 2}, .padding = Padding::same};
  const Pool2dOptions large{.window = {17, 17}, .stride = {1, 1}};  // indices of four bytes
  const Pool3dOptions of_volumes{.window = {2, 2, 2}, .stride = {1, 1, 1}, .format = DataFormat::nchw};
  const Shape images{2, 9, 8, 5}, volumes{2, 3, 4, 5, 4}, packs{2, 9, 8, 16}, large_images{1, 18, 18, 4};
  const auto max2 = [](Inputs& in, const Shape& x, const Pool2dOptions& options) {
    return in.with_gradients(max_pool2d(in.bf16(x), options));
  };
  const auto resized = [=](Inputs& in, Resize2dOptions options) {
    return in.with_gradients(resize2d(in.bf16(images), options));
  };
  return {
      {"max_pool2d", [=](Inputs& in) { return max2(in, images, overlapping); }},
      {"max_pool2d_of_packs", [=](Inputs& in) { return max2(in, packs, overlapping); }},
      {"max_pool2d_of_large_windows", [=](Inputs& in) { return max2(in, large_images, large); }},
      {"max_pool2d_of_special_numbers",
       [=](Inputs& in) { return std::vector{max_pool2d(in.extreme(images), overlapping)}; }},
      {"average_pool2d", [=](Inputs& in) { return in.with_gradients(average_pool2d(in.bf16(images), overlapping)); }},
      {"average_pool2d_of_packs",
       [=](Inputs& in) { return in.with_gradients(average_pool2d(in.bf16(packs), overlapping)); }},
      {"max_pool3d", [=](Inputs& in) { return in.with_gradients(max_pool3d(in.bf16(volumes), of_volumes)); }},
      {"average_pool3d", [=](Inputs& in) { return in.with_gradients(average_pool3d(in.bf16(volumes), of_volumes)); }},
      {"resize_nearest", [=](Inputs& in) { return resized(in, {.height = 13, .width = 5}); }},
      {"resize_bilinear",
       [=](Inputs& in) { return resized(in, {.height = 13, .width = 5, .method = ResizeMethod::bilinear}); }},
      {"gather", [](Inputs& in) { return gathered(in, 8); }},
      {"gather_of_odd_rows", [](Inputs& in) { return gathered(in, 5); }},
      {"reduce_rows",
       [](Inputs& in) {
         return reduced(in, {40, 77}, {1});
       }},
      {"reduce_columns",
       [](Inputs& in) {
         return reduced(in, {300, 12}, {0});
       }},
      {"reduce_few_columns",
       [](Inputs& in) {
         return reduced(in, {5, 12, 3}, {0, 1});
       }},
      {"reduce_to_one",
       [](Inputs& in) {
         return reduced(in, {90, 101}, {});
       }},
      {"reduce_special_numbers",
       [](Inputs& in) {
         return std::vector{reduce_max(in.extreme({9, 12}), {.axes = {1}}), reduce_sum(in.extreme({9, 12}))};
       }},
      {"reduce_to_like",
       [](Inputs& in) {
         return std::vector{reduce_to_like(in.bf16({30, 7, 4}), in.bf16({7, 1}))};
       }},
  };
}

class NativeBf16 : public testing::TestWithParam<Line> {};

TEST_P(NativeBf16, GivesTheBitsOfF32BetweenCopies) {
  Inputs in(7);
  const std::vector<Value> fetches = GetParam().build(in);
  const std::vector<HostTensor> wanted = run_kernels(fetches, in.feeds, {.widens_bf16 = true});
  const RunOptions variants[] = {{},
                                 {.in_place = InPlaceUse::first_pairs},
                                 {.in_place = InPlaceUse::last_pairs, .address_seed = 3},
                                 {.replay = true, .garbage = 0x3C}};
  for (const RunOptions& options : variants) {
    const std::vector<HostTensor> found = run_kernels(fetches, in.feeds, options);
    for (std::size_t i = 0; i < fetches.size(); ++i) {
      EXPECT_TRUE(bitwise_equal(found[i], wanted[i])) << "fetch " << i << ", " << fetches[i].name();
    }
  }
}

TEST_P(NativeBf16, NeedsNoCopies) {
  // What the CPU has in f32 alone.
  std::set<std::string> by_copies;
  if (tests_run_on_cpu()) by_copies = {"attention", "attention_grad", "gather_grad", "resize2d", "resize2d_grad"};
  Inputs in(7);
  std::vector<Value> open = GetParam().build(in);
  std::set<std::string> widened;
  for (std::size_t next = 0; next < open.size(); ++next) {
    const Node& node = open[next].node();
    const bool may_copy = by_copies.count(node.op().name) > 0;
    if (!may_copy && node.op().has_kernel && implementation_of(open[next]).find("f32 for bf16") != std::string::npos) {
      widened.insert(node.op().name);
    }
    for (const Value& input : node.inputs()) {
      if (std::find(open.begin(), open.end(), input) == open.end()) open.push_back(input);
    }
  }
  EXPECT_EQ(widened, std::set<std::string>());
}

std::string line_name(const testing::TestParamInfo<Line>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Arithmetic, NativeBf16, testing::ValuesIn(arithmetic_lines()), line_name);
INSTANTIATE_TEST_SUITE_P(Windows, NativeBf16, testing::ValuesIn(window_lines()), line_name);
INSTANTIATE_TEST_SUITE_P(Rows, NativeBf16, testing::ValuesIn(row_lines()), line_name);

}  // namespace
}  // namespace sectionflow::testing_support

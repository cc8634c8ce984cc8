// Kernels that take bf16 as it is compute what the kernels of f32 do between copies (kernels/widened_kernel.h), but for
// sums of products on tensor cores.

#include "tests/kernels/native_bf16.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "graph/nodes/arithmetic.h"
#include "graph/op_def.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/batch_norm.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/dropout.h"
#include "graph/ops/fake_quantize.h"
#include "graph/ops/group_norm.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layer_norm.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/tolerance.h"

namespace sectionflow::testing_support {
namespace {

/// Each function of one value, in whole packs, with a rest, and of special numbers.
template <class Function>
std::vector<Value> of_one(Bf16Inputs& in, const Function& function) {
  std::vector<Value> all;
  for (const Value& x : {in.bf16({64}, 0.1, 3), in.bf16({7, 13}, 0.1, 3), in.extreme({333})}) {
    in.differentiated = {x};
    for (const Value& value : in.with_gradients(function(x))) all.push_back(value);
  }
  return all;
}

template <class Function>
std::vector<Value> of_two(Bf16Inputs& in, const Function& function) {
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

Bf16Line of_one(const char* name, Value (*function)(Value, Where)) {
  return {name, [=](Bf16Inputs& in) { return of_one(in, [=](Value x) { return function(x, Where::here()); }); }};
}
Bf16Line of_two(const char* name, Value (*function)(Value, Value, Where)) {
  return {name,
          [=](Bf16Inputs& in) { return of_two(in, [=](Value a, Value b) { return function(a, b, Where::here()); }); }};
}

std::vector<Value> normalized_channels(Bf16Inputs& in, const Shape& shape, bool training, BatchNormOptions options) {
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

std::vector<Value> normalized_rows(Bf16Inputs& in, const Shape& shape) {
  const Value x = in.bf16(shape), scale = in.f32({shape[-1]}, 0.5, 2), shift = in.f32({shape[-1]});
  return in.with_gradients(layer_norm(x, scale, shift));
}

std::vector<Value> normalized_groups(Bf16Inputs& in, const Shape& shape, const GroupNormOptions& options) {
  const Shape channels{shape[channel_axis(options.format)]};
  const Value x = in.bf16(shape), scale = in.f32(channels, 0.5, 2), shift = in.f32(channels);
  return in.with_gradients(group_norm(x, scale, shift, options));
}

std::vector<Value> scaled_rows(Bf16Inputs& in, const Shape& shape) {
  const Value x = in.bf16(shape), scale = in.f32({shape[-1]}, 0.5, 2);
  return in.with_gradients(rms_norm(x, scale));
}

std::vector<Bf16Line> arithmetic_lines() {
  return {
      of_one("relu", relu),
      of_one("tanh", tanh),
      of_one("sigmoid", sigmoid),
      of_one("silu", silu),
      {"gelu", [](Bf16Inputs& in) { return of_one(in, [](Value x) { return gelu(x); }); }},
      {"gelu_of_tanh",
       [](Bf16Inputs& in) { return of_one(in, [](Value x) { return gelu(x, {.approximation = Gelu::tanh}); }); }},
      of_one("neg", neg),
      of_one("square", square),
      of_one("sqrt", sqrt),
      of_one("rsqrt", rsqrt),
      of_one("exp", exp),
      of_one("log", log),
      of_one("expm1", expm1),
      of_one("log1p", log1p),
      of_one("abs", abs),
      {"sign", [](Bf16Inputs& in) { return of_one(in, [](Value x) { return sign(x) + x; }); }},
      of_one("sin", sin),
      of_one("cos", cos),
      of_one("erf", erf),
      of_one("softplus", softplus),
      of_one("mish", mish),
      of_one("hard_swish", hard_swish),
      {"leaky_relu", [](Bf16Inputs& in) { return of_one(in, [](Value x) { return leaky_relu(x - 1.0F); }); }},
      {"elu", [](Bf16Inputs& in) { return of_one(in, [](Value x) { return elu(x - 1.0F, {.alpha = 0.7F}); }); }},
      {"is_finite", [](Bf16Inputs& in) { return of_one(in, [](Value x) { return select(is_finite(x), x, -x); }); }},
      {"clip", [](Bf16Inputs& in) { return of_one(in, [](Value x) { return clip(x, 0.5F, 1.5F); }); }},
      {"numbers", [](Bf16Inputs& in) { return of_one(in, [](Value x) { return (1.0F - x * 0.3F) / 7.0F + x; }); }},
      {"fake_quantize",
       [](Bf16Inputs& in) {
         return of_one(in, [&](Value x) { return fake_quantize(x, in.f32({}, -2, -1), in.f32({}, 0, 1)); });
       }},
      {"dropout",
       [](Bf16Inputs& in) {
         return of_one(in, [&](Value x) { return dropout(x, in.boolean(true), {.rate = 0.3F}); });
       }},
      {"no_dropout", [](Bf16Inputs& in) { return of_one(in, [&](Value x) { return dropout(x, in.boolean(false)); }); }},
      of_two("add", add),
      of_two("sub", sub),
      of_two("mul", mul),
      of_two("div", div),
      of_two("maximum", maximum),
      of_two("minimum", minimum),
      {"select", [](Bf16Inputs& in) { return of_two(in, [](Value a, Value b) { return select(less(a, b), b, a); }); }},
      {"add_n", [](Bf16Inputs& in) {
         std::vector<Value> values;
         for (int i = 0; i < 40; ++i) values.push_back(in.bf16({9, 5}));
         std::vector<Value> few(values.begin(), values.begin() + 3);
         return std::vector{add_n(values), add_n(few), add_n({in.extreme({64}), in.extreme({64})}),
                            accumulate(accumulate(few[0], few[1], Dtype::f32), few[2], Dtype::bf16)};
       }}};
}

std::vector<Bf16Line> row_lines() {
  const auto bias = [](Bf16Inputs& in, const Shape& shape, DataFormat format) {
    const Value x = in.bf16(shape), b = in.bf16({shape[channel_axis(format)]});
    return in.with_gradients(bias_add(x, b, {.format = format}));
  };
  return {
      {"bias",
       [=](Bf16Inputs& in) {
         return bias(in, {70, 24}, DataFormat::nhwc);
       }},
      {"bias_of_many_rows",
       [=](Bf16Inputs& in) {
         return bias(in, {5000, 3}, DataFormat::nhwc);
       }},
      {"bias_nchw",
       [=](Bf16Inputs& in) {
         return bias(in, {3, 5, 6, 4}, DataFormat::nchw);
       }},
      {"softmax",
       [](Bf16Inputs& in) {
         return in.with_gradients(softmax(in.bf16({9, 77})));
       }},
      {"softmax_of_short_rows",
       [](Bf16Inputs& in) {
         return in.with_gradients(softmax(in.bf16({50, 7})));
       }},
      {"softmax_of_long_rows",
       [](Bf16Inputs& in) {
         return in.with_gradients(softmax(in.bf16({3, 1500})));
       }},
      {"log_softmax",
       [](Bf16Inputs& in) {
         return in.with_gradients(log_softmax(in.bf16({9, 77})));
       }},
      {"argmax",
       [](Bf16Inputs& in) {
         return std::vector{argmax(in.extreme({9, 77})), argmax(in.bf16({40, 3}))};
       }},
      {"layer_norm",
       [](Bf16Inputs& in) {
         return normalized_rows(in, {6, 7, 100});
       }},
      {"layer_norm_of_short_rows",
       [](Bf16Inputs& in) {
         return normalized_rows(in, {70, 8});
       }},
      {"layer_norm_of_long_rows",
       [](Bf16Inputs& in) {
         return normalized_rows(in, {3, 1100});
       }},
      {"group_norm",
       [](Bf16Inputs& in) {
         return normalized_groups(in, {3, 5, 5, 24}, {.groups = 4});
       }},
      {"group_norm_nchw",
       [](Bf16Inputs& in) {
         return normalized_groups(in, {3, 6, 7, 5}, {.groups = 3, .format = DataFormat::nchw});
       }},
      {"rms_norm",
       [](Bf16Inputs& in) {
         return scaled_rows(in, {6, 7, 100});
       }},
      {"rms_norm_of_long_rows",
       [](Bf16Inputs& in) {
         return scaled_rows(in, {3, 1100});
       }},
      {"batch_norm",
       [](Bf16Inputs& in) {
         return normalized_channels(in, {6, 5, 5, 24}, true, {});
       }},
      {"batch_norm_odd",
       [](Bf16Inputs& in) {
         return normalized_channels(in, {7, 3, 5}, true, {});
       }},
      {"batch_norm_running",
       [](Bf16Inputs& in) {
         return normalized_channels(in, {50, 12}, false, {});
       }},
      {"batch_norm_relu",
       [](Bf16Inputs& in) {
         return normalized_channels(in, {70, 9}, true, {.relu = true});
       }},
      {"batch_norm_nchw",
       [](Bf16Inputs& in) {
         return normalized_channels(in, {3, 5, 6, 7}, true, {.relu = true, .format = DataFormat::nchw});
       }},
  };
}

TEST_P(NativeBf16, GivesTheBitsOfF32BetweenCopies) {
  if (GetParam().of_cpu_alone && !tests_run_on_cpu()) GTEST_SKIP() << "this line is for the CPU";
  Bf16Inputs in(7);
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
  if (GetParam().of_cpu_alone && !tests_run_on_cpu()) GTEST_SKIP() << "this line is for the CPU";
  Bf16Inputs in(7);
  std::vector<Value> open = GetParam().build(in);
  std::set<std::string> widened;
  for (std::size_t next = 0; next < open.size(); ++next) {
    const Node& node = open[next].node();
    if (node.op().has_kernel && implementation_of(open[next]).find("f32 for bf16") != std::string::npos) {
      widened.insert(node.op().name);
    }
    for (const Value& input : node.inputs()) {
      if (std::find(open.begin(), open.end(), input) == open.end()) open.push_back(input);
    }
  }
  EXPECT_EQ(widened, std::set<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Arithmetic, NativeBf16, testing::ValuesIn(arithmetic_lines()), bf16_line_name);
INSTANTIATE_TEST_SUITE_P(Rows, NativeBf16, testing::ValuesIn(row_lines()), bf16_line_name);

}  // namespace
}  // namespace sectionflow::testing_support

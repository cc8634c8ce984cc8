#include "graph/ops/quantized_convolution.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "autodiff/gradients.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "tests/ops/convolution_reference.h"
#include "tests/ops/quantized_reference.h"
#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing_support {
namespace {

/// What is added to sums, and what becomes of them.
struct Behind {
  Dtype x = Dtype::u8;
  QuantizedProductOptions product{};
  std::optional<Dtype> residual{};
};

/// y of sums: inputs x, w, factor, bias and perhaps a residual.
Doubles made_of(const Doubles& sums, const std::vector<Doubles>& in, const QuantizedProductOptions& options) {
  Doubles y(sums.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t channel = i % in[2].size();
    const float scaled = static_cast<float>(sums[i]) * static_cast<float>(in[2][channel]);
    float value = scaled + static_cast<float>(in[3][channel]);
    if (in.size() > 4) {
      const float residual = static_cast<float>(in[4][i]) * options.residual_factor;
      value = value + residual;
    }
    y[i] = requantized(value, options.result);
  }
  return y;
}

void add_behind(OpCase& op_case, const Behind& behind, const Shape& y, double most) {
  const auto channels = y[-1];
  op_case.inputs[0] = integers(behind.x, op_case.inputs[0].type.shape);
  op_case.inputs[1] = integers(Dtype::i8, op_case.inputs[1].type.shape);
  op_case.inputs[1].has_batch = false;
  op_case.inputs.push_back(parameter({channels}, 20 / most, 400 / most));
  op_case.inputs.push_back(parameter({channels}, -20, 60));
  if (behind.residual) {
    op_case.inputs.push_back(*behind.residual == Dtype::f32 ? input(y, -100, 100) : integers(*behind.residual, y));
  }
  op_case.tolerance = {.relative = 0, .absolute = 0};
  op_case.gradient_outputs = {};
  op_case.same_bits_for_any_threads = true;
}

template <std::size_t rank>
OpCase quantized_case(const ConvolutionLine<rank>& line, const Behind& behind, const std::string& suffix = "") {
  const QuantizedConvolutionOptions options{.convolution = plain(line.options), .product = behind.product};
  const ConvolutionGeometry g = convolution_geometry(line.x, line.w, options.convolution, line.name);
  OpCase result = convolution_case(line, [](Value, Value, const auto&) { return Value(); });
  const auto sums = result.reference;
  result.name += suffix;
  const std::int64_t products = std::max<std::int64_t>(1, g.num_taps() * g.channels / g.groups);
  add_behind(result, behind, g.y_shape(), 4e3 * std::sqrt(static_cast<double>(products)));
  result.build = [options](Graph&, const std::vector<Value>& in) {
    return std::vector{quantized_convolution(in[0], in[1], in[2], in[3], in.size() > 4 ? in[4] : Value(), options)};
  };
  result.reference = [=](const std::vector<Doubles>& in) {
    return std::vector<Doubles>{made_of(sums({in[0], in[1]})[0], in, options.product)};
  };
  return result;
}

constexpr Behind kToBytes{.product = {.result = {.dtype = Dtype::u8, .relu = true}}};
constexpr Behind kToIntegers{.x = Dtype::i8, .product = {.result = {.dtype = Dtype::i8}}};
constexpr Behind kWithBytes{.product = {.result = {.dtype = Dtype::u8, .relu = true}, .residual_factor = 0.7F},
                            .residual = Dtype::u8};
constexpr Behind kWithIntegers{
    .x = Dtype::i8, .product = {.result = {.dtype = Dtype::i8}, .residual_factor = 0.3F}, .residual = Dtype::i8};
constexpr Behind kToFloats{.x = Dtype::i8, .product = {.residual_factor = 1.0F}, .residual = Dtype::f32};

std::vector<OpCase> quantized_cases() {
  const ConvolutionLine<2> lines[] = {
      {"images", {3, 6, 5, 16}, {3, 3, 16, 16}, {}, true},
      {"few_channels", {2, 9, 9, 3}, {5, 5, 3, 10}, {.stride = {2, 2}}},
      {"wide_1x1", {1, 4, 5, 64}, {1, 1, 64, 96}},
      {"depthwise", {2, 7, 6, 17}, {3, 3, 1, 17}, {.groups = 17}},
      {"groups", {2, 6, 6, 64}, {3, 3, 16, 64}, {.groups = 4}},
      {"few_in_groups", {2, 6, 6, 8}, {3, 3, 4, 6}, {.groups = 2}},
      {"dilated", {1, 9, 9, 16}, {3, 3, 16, 24}, {.dilation = {2, 2}}},
      {"many_images", {70, 16, 16, 4}, {1, 1, 4, 70}},
      // Pixels that windows pass over, and that lie behind the last one.
      {"passed_over", {2, 10, 9, 320}, {1, 2, 320, 17}, {.stride = {2, 3}}},
      {"left_over", {1, 12, 8, 640}, {7, 7, 640, 5}, {.stride = {3, 3}, .padding = Padding::valid}},
      // More sums than a thread adds up at once: rows at the upper end, between, and at the lower end.
      {"many_rows", {1, 112, 80, 3}, {3, 1, 3, 256}, {.stride = {2, 2}}},
      {"empty_batch", {0, 8, 8, 3}, {3, 3, 3, 4}},
      {"no_channels", {2, 3, 3, 0}, {1, 1, 0, 4}}};
  std::vector<OpCase> all;
  for (const auto& line : lines) {
    all.push_back(quantized_case(line, kToBytes, "_relu"));
    all.push_back(quantized_case(line, kWithIntegers, "_signed_sum"));
  }
  all.push_back(quantized_case(lines[0], kToIntegers, "_signed"));
  all.push_back(quantized_case(lines[0], kWithBytes, "_sum"));
  all.push_back(quantized_case(lines[2], kToFloats, "_wide"));
  all.push_back(quantized_case(ConvolutionLine<3>{"volumes", {1, 3, 4, 5, 4}, {3, 3, 3, 4, 8}}, kWithBytes));
  return all;
}

OpCase product_case(const std::string& name, Shape x, std::int64_t filters, const Behind& behind) {
  const std::int64_t channels = x[-1];
  std::vector<std::int64_t> dims = x.dims();
  dims.back() = filters;
  OpCase result{
      .name = name,
      .inputs = {input(std::move(x)), parameter({channels, filters})},
      .build =
          [options = behind.product](Graph&, const std::vector<Value>& in) {
            return std::vector{quantized_matmul(in[0], in[1], in[2], in[3], in.size() > 4 ? in[4] : Value(), options)};
          },
      .reference =
          [=, options = behind.product](const std::vector<Doubles>& in) {
            const auto c = static_cast<std::size_t>(channels), f = static_cast<std::size_t>(filters);
            Doubles sums(in[0].size() / c * f);
            for (std::size_t i = 0; i < in[0].size(); ++i) {
              for (std::size_t k = 0; k < f; ++k) sums[i / c * f + k] += in[0][i] * in[1][i % c * f + k];
            }
            return std::vector<Doubles>{made_of(sums, in, options)};
          },
      .dynamic_batch = true};
  add_behind(result, behind, Shape(dims), 4e3 * std::sqrt(static_cast<double>(channels)));
  return result;
}

std::vector<OpCase> product_cases() {
  return {product_case("rows", {5, 128}, 10, kToBytes), product_case("tokens", {3, 7, 33}, 65, kWithIntegers),
          product_case("one_row", {1, 300}, 130, kToFloats), product_case("no_rows", {0, 8}, 4, kToIntegers)};
}

class QuantizedConvolutionCases : public testing::TestWithParam<OpCase> {};
TEST_P(QuantizedConvolutionCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Convolutions, QuantizedConvolutionCases, testing::ValuesIn(quantized_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Products, QuantizedConvolutionCases, testing::ValuesIn(product_cases()), case_name);

TEST(QuantizedConvolution, IsExactWhereSumsAreAsLargeAsTheyGet) {
  // What adds pairs of products in 16 bits is found out here, and so is what halves weights.
  for (const bool is_signed : {false, true}) {
    const Dtype dtype = is_signed ? Dtype::i8 : Dtype::u8;
    for (const std::int64_t channels : {1LL, 7LL, 64LL, 2048LL, 65536LL}) {
      Graph graph;
      const Value x = placeholder(graph, "x", {2, channels}, dtype),
                  w = placeholder(graph, "w", {channels, 16}, Dtype::i8);
      const Value one = placeholder(graph, "one", {16}), zero = placeholder(graph, "zero", {16});
      HostTensor high(dtype, {2, channels}), weights(Dtype::i8, {channels, 16}), ones(Dtype::f32, {16});
      const int most = is_signed ? -128 : 255;
      std::fill_n(reinterpret_cast<std::uint8_t*>(high.bytes()), 2 * channels, static_cast<std::uint8_t>(most));
      for (std::int64_t i = 0; i < channels * 16; ++i) {
        weights.values<std::int8_t>()[static_cast<std::size_t>(i)] = i % 16 == 3 ? 127 : i % 16 == 5 ? -127 : -128;
      }
      for (float& each : ones.values<float>()) each = 1;
      // One element differs, so that the last bit counts.
      weights.values<std::int8_t>()[0] = -127;
      Feeds feeds;
      feeds.emplace(x, std::move(high));
      feeds.emplace(w, std::move(weights));
      feeds.emplace(one, std::move(ones));
      feeds.emplace(zero, HostTensor(Dtype::f32, {16}));
      const auto y = run_kernels({quantized_matmul(x, w, one, zero)}, feeds);
      const auto sum = [&](std::int64_t weight) {
        return static_cast<float>(static_cast<std::int32_t>(channels * most * weight));
      };
      const auto row = y[0].values<float>();
      EXPECT_EQ(row[0], static_cast<float>(static_cast<std::int32_t>(channels * most * -128 + most))) << channels;
      EXPECT_EQ(row[1], sum(-128)) << channels;
      EXPECT_EQ(row[3], sum(127)) << channels;
      EXPECT_EQ(row[5], sum(-127)) << channels;
    }
  }
}

TEST(QuantizedConvolution, RefusesWhatDoesNotFitAndGradients) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 6, 6, 4}, Dtype::u8);
  const Value w = placeholder(graph, "w", {3, 3, 4, 8}, Dtype::i8);
  const Value factor = placeholder(graph, "factor", {8}), bias = placeholder(graph, "bias", {8});
  const QuantizedConvolutionOptions options{.convolution = plain(Conv2dOptions{.stride = 2})};
  const Value y = quantized_convolution(x, w, factor, bias, {}, options);
  EXPECT_EQ(y.type().text(), "f32[?,3,3,8]");
  const auto made = [&](Value image, Value weights, Value factors, Value residual = {}) {
    return quantized_convolution(image, weights, factors, bias, residual, options);
  };
  EXPECT_THROW(made(placeholder(graph, "f", {2, 6, 6, 4}), w, factor), ArgumentError);
  EXPECT_THROW(made(x, placeholder(graph, "u", {3, 3, 4, 8}, Dtype::u8), factor), ArgumentError);
  EXPECT_THROW(made(x, w, placeholder(graph, "four", {4})), ShapeError);
  EXPECT_THROW(made(x, w, placeholder(graph, "integers", {8}, Dtype::i32)), ShapeError);
  EXPECT_THROW(made(x, w, factor, x), ShapeError);
  EXPECT_THROW(made(x, w, factor, placeholder(graph, "r", {kDynamic, 3, 3, 8}, Dtype::i32)), ArgumentError);
  QuantizedConvolutionOptions nchw = options, wide = options;
  nchw.convolution.steps.format = DataFormat::nchw;
  EXPECT_THROW(quantized_convolution(x, w, factor, bias, {}, nchw), ArgumentError);
  wide.product.result.dtype = Dtype::i32;
  EXPECT_THROW(quantized_convolution(x, w, factor, bias, {}, wide), ArgumentError);
  const Value rows = placeholder(graph, "rows", {2, 65537}, Dtype::u8);
  const Value column = placeholder(graph, "column", {65537, 8}, Dtype::i8);
  const std::string many = error_text<ArgumentError>([&] { quantized_matmul(rows, column, factor, bias); });
  EXPECT_TRUE(contains(many, "at most 65536")) << many;
  EXPECT_THROW(quantized_matmul(x, column, factor, bias), ShapeError);
  const std::string text = error_text<ArgumentError>([&] { gradients(reduce_sum(y), {bias}); });
  EXPECT_TRUE(contains(text, "for inference")) << text;
}

}  // namespace
}  // namespace sectionflow::testing_support

#include "graph/ops/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "autodiff/gradients.h"
#include "graph/graph_file.h"
#include "graph/nodes/quantize.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "kernels/formulas/quantize.h"
#include "tests/ops/quantized_reference.h"
#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing_support {
namespace {

/// The scale of an element of [outer, channels, inner].
double channel_scale(const Doubles& scales, std::size_t element, std::size_t inner) {
  return scales[element / inner % scales.size()];
}

OpCase quantize_case(const std::string& name, Shape x, Shape scale, const QuantizeOptions& options, std::size_t inner) {
  return {.name = name,
          .inputs = {input(std::move(x), -3, 3), parameter(std::move(scale), 0.005, 0.04)},
          .build = [=](Graph&, const std::vector<Value>& in) { return std::vector{quantize(in[0], in[1], options)}; },
          .reference =
              [=](const std::vector<Doubles>& in) {
                Doubles q(in[0].size());
                const auto lowest = static_cast<double>(lowest_of(options.dtype)),
                           highest = static_cast<double>(highest_of(options.dtype));
                for (std::size_t i = 0; i < q.size(); ++i) {
                  const auto ratio = static_cast<float>(in[0][i]) / static_cast<float>(channel_scale(in[1], i, inner));
                  q[i] =
                      std::clamp(std::nearbyint(static_cast<double>(ratio)) + static_cast<double>(options.zero_point),
                                 lowest, highest);
                }
                return std::vector<Doubles>{q};
              },
          .gradient_outputs = {},
          .dynamic_batch = true,
          .same_bits_for_any_threads = true};
}

OpCase dequantize_case(const std::string& name, Shape q, Shape scale, const QuantizeOptions& options,
                       std::size_t inner) {
  return {.name = name,
          .inputs = {integers(options.dtype, std::move(q)), parameter(std::move(scale), 0.005, 0.04)},
          .build = [=](Graph&, const std::vector<Value>& in) { return std::vector{dequantize(in[0], in[1], options)}; },
          .reference =
              [=](const std::vector<Doubles>& in) {
                Doubles x(in[0].size());
                for (std::size_t i = 0; i < x.size(); ++i) {
                  x[i] = (in[0][i] - static_cast<double>(options.zero_point)) * channel_scale(in[1], i, inner);
                }
                return std::vector<Doubles>{x};
              },
          .tolerance = {.relative = 1},
          .gradient_outputs = {},
          .dynamic_batch = true,
          .same_bits_for_any_threads = true};
}

std::vector<OpCase> quantize_cases() {
  std::vector<OpCase> all;
  for (const auto& of : {quantize_case, dequantize_case}) {
    const std::string what = of == quantize_case ? "quantize_" : "dequantize_";
    all.push_back(of(what + "i8", {37, 5}, {}, {}, 1));
    all.push_back(of(what + "u8_zero_point", {150, 333}, {}, {.dtype = Dtype::u8, .zero_point = 121}, 1));
    all.push_back(of(what + "channels_last", {9, 7, 13}, {13}, {.zero_point = -5}, 1));
    all.push_back(of(what + "channels_first", {3, 7, 13}, {7}, {.dtype = Dtype::u8, .axis = 1}, 13));
    all.push_back(of(what + "empty", {0, 4}, {4}, {}, 1));
  }
  return all;
}

OpCase add_case(const std::string& name, Dtype a, Dtype b, const QuantizedResult& result) {
  const QuantizedAddOptions options{.a_factor = 0.37F, .b_factor = 1.23F, .result = result};
  return {
      .name = name,
      .inputs = {integers(a, {19, 73}), integers(b, {19, 73})},
      .build = [=](Graph&, const std::vector<Value>& in) { return std::vector{quantized_add(in[0], in[1], options)}; },
      .reference =
          [=](const std::vector<Doubles>& in) {
            Doubles y(in[0].size());
            for (std::size_t i = 0; i < y.size(); ++i) {
              const float left = static_cast<float>(in[0][i]) * options.a_factor,
                          right = static_cast<float>(in[1][i]) * options.b_factor;
              y[i] = requantized(left + right, result);
            }
            return std::vector<Doubles>{y};
          },
      .tolerance = {.relative = 0, .absolute = 0},
      .gradient_outputs = {},
      .dynamic_batch = true,
      .same_bits_for_any_threads = true};
}

std::vector<OpCase> add_cases() {
  return {add_case("i8_u8_to_u8", Dtype::i8, Dtype::u8, {.dtype = Dtype::u8, .relu = true}),
          add_case("u8_u8_to_i8", Dtype::u8, Dtype::u8, {.dtype = Dtype::i8}),
          add_case("i8_i8_to_f32", Dtype::i8, Dtype::i8, {.relu = true}),
          add_case("i8_i8_to_i8_relu", Dtype::i8, Dtype::i8, {.dtype = Dtype::i8, .relu = true})};
}

class Quantized : public testing::TestWithParam<OpCase> {};
TEST_P(Quantized, EqualsTheReferenceAndKeepsItsBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Scaled, Quantized, testing::ValuesIn(quantize_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Add, Quantized, testing::ValuesIn(add_cases()), case_name);

TEST(IntegerRange, RoundsHalvesToTheEvenOneAndCutsWhatIsBeyond) {
  const formulas::IntegerRange range{-128, 127};
  for (int k = -600; k <= 600; ++k) {
    const float x = 0.25F * static_cast<float>(k);
    EXPECT_EQ(range.nearest(x), std::clamp(static_cast<int>(std::nearbyint(x)), -128, 127)) << x;
  }
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(range.nearest(infinity), 127);
  EXPECT_EQ(range.nearest(-infinity), -128);
  EXPECT_EQ(range.nearest(std::nanf("")), -128);
  EXPECT_EQ(range.nearest(std::nextafter(0.5F, 0.0F)), 0);
  EXPECT_EQ(range.nearest(std::nextafter(0.5F, 1.0F)), 1);
}

TEST(Quantize, GivesAnIntegerWhateverItIsGiven) {
  // Also where a file that nobody trusts has scales that are none.
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  for (const float scale : {0.0F, -1.0F, infinity, nan, 1e-45F, 3e38F}) {
    Graph graph;
    const Value x = placeholder(graph, "x", {6}), s = placeholder(graph, "s", {});
    const Value q = quantize(x, s, {.dtype = Dtype::u8, .zero_point = 3}), back = dequantize(q, s);
    const HostTensor numbers = HostTensor::of<float>({6}, {0, 1, -1, infinity, nan, 1e30F});
    const auto of = [&](int threads) {
      Feeds feeds;
      feeds.emplace(x, numbers.clone());
      feeds.emplace(s, HostTensor::scalar(scale));
      return run_kernels({q, back}, feeds, {.threads = threads});
    };
    const auto one = of(1), two = of(2);
    EXPECT_TRUE(same_bits(one[0], two[0])) << scale;
  }
}

TEST(Quantize, RefusesWhatDoesNotFitAndGradients) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 4}), scale = placeholder(graph, "scale", {});
  const Value q = quantize(x, scale);
  EXPECT_EQ(q.type().text(), "i8[?,4]");
  EXPECT_EQ(dequantize(q, placeholder(graph, "scales", {4})).type().text(), "f32[?,4]");
  EXPECT_THROW(quantize(q, scale), ArgumentError);
  EXPECT_THROW(dequantize(x, scale), ArgumentError);
  EXPECT_THROW(quantize(x, scale, {.dtype = Dtype::i32}), ArgumentError);
  EXPECT_THROW(quantize(x, scale, {.zero_point = 128}), ArgumentError);
  EXPECT_THROW(quantize(x, scale, {.dtype = Dtype::u8, .zero_point = -1}), ArgumentError);
  EXPECT_THROW(dequantize(q, scale, {.zero_point = 1LL << 40}), ArgumentError);
  EXPECT_THROW(quantize(x, placeholder(graph, "scales", {5})), ShapeError);
  EXPECT_THROW(quantize(x, placeholder(graph, "scales", {4}), {.axis = 2}), ArgumentError);
  EXPECT_THROW(quantize(x, placeholder(graph, "scales", {4, 1})), ShapeError);
  EXPECT_THROW(quantized_add(q, x, {}), ArgumentError);
  EXPECT_THROW(quantized_add(q, quantize(placeholder(graph, "y", {kDynamic, 5}), scale), {}), ShapeError);
  EXPECT_THROW(quantized_add(q, q, {.result = {.dtype = Dtype::bf16}}), ArgumentError);
  const std::string text = error_text<ArgumentError>([&] { gradients(reduce_sum(dequantize(q, scale)), {scale}); });
  EXPECT_TRUE(contains(text, "for inference")) << text;
}

}  // namespace
}  // namespace sectionflow::testing_support

#include "graph/ops/fused_convolution.h"

#include <algorithm>
#include <string>
#include <vector>

#include "autodiff/gradients.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "tests/ops/convolution_reference.h"
#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing_support {
namespace {

/// The case of a convolution with its bias, and perhaps a residual and a relu.
template <std::size_t rank>
OpCase fused_case(const ConvolutionLine<rank>& line, bool has_residual, bool relu) {
  const FusedConvolutionOptions options{.convolution = plain(line.options), .relu = relu};
  const ConvolutionGeometry g = convolution_geometry(line.x, line.w, options.convolution, line.name);
  OpCase result = convolution_case(line, [](Value, Value, const auto&) { return Value(); });
  const auto convolved = result.reference;
  result.name += text_of(has_residual ? "_residual" : "", relu ? "_relu" : "");
  result.inputs.push_back(parameter({g.filters}));
  if (has_residual) result.inputs.push_back(input(g.y_shape()));
  result.build = [options](Graph&, const std::vector<Value>& in) {
    return std::vector{fused_convolution(in[0], in[1], in[2], in.size() > 3 ? in[3] : Value(), options)};
  };
  const auto filters = static_cast<std::size_t>(g.filters);
  std::size_t pixels = 1;  // between one channel and the next
  for (const WindowAxis& axis : g.axes) pixels *= g.format == DataFormat::nhwc ? 1 : static_cast<std::size_t>(axis.out);
  result.reference = [=](const std::vector<Doubles>& in) {
    std::vector<Doubles> y = convolved({in[0], in[1]});
    for (std::size_t i = 0; i < y[0].size(); ++i) {
      y[0][i] += in[2][i / pixels % filters] + (has_residual ? in[3][i] : 0.0);
      if (relu) y[0][i] = std::max(0.0, y[0][i]);
    }
    return y;
  };
  result.tolerance.absolute += 4;
  result.gradient_outputs = {};
  return result;
}

std::vector<OpCase> fused_cases() {
  const ConvolutionLine<2> lines[] = {{"images", {3, 6, 5, 16}, {3, 3, 16, 16}, {}, true},
                                      {"few_channels", {2, 9, 9, 3}, {5, 5, 3, 10}, {.stride = {2, 2}}},
                                      {"wide_1x1", {1, 4, 5, 32}, {1, 1, 32, 64}},
                                      {"depthwise", {2, 7, 6, 17}, {3, 3, 1, 17}, {.groups = 17}},
                                      {"groups", {2, 6, 6, 8}, {3, 3, 4, 6}, {.groups = 2}},
                                      {"nchw", {2, 16, 5, 6}, {3, 3, 16, 8}, {.format = DataFormat::nchw}, true},
                                      {"valid", {1, 9, 9, 16}, {3, 3, 16, 24}, {.padding = Padding::valid}},
                                      {"empty_batch", {0, 8, 8, 3}, {3, 3, 3, 4}}};
  std::vector<OpCase> all;
  for (const auto& line : lines) all.push_back(fused_case(line, true, true));
  all.push_back(fused_case(ConvolutionLine<3>{"volumes", {1, 3, 4, 5, 4}, {3, 3, 3, 4, 8}}, true, true));
  all.push_back(fused_case(lines[0], false, false));
  all.push_back(fused_case(lines[0], false, true));
  all.push_back(fused_case(lines[0], true, false));
  all.push_back(fused_case(lines[5], false, false));
  return all;
}

class FusedConvolutionCases : public testing::TestWithParam<OpCase> {};
TEST_P(FusedConvolutionCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, FusedConvolutionCases, testing::ValuesIn(fused_cases()), case_name);

TEST(FusedConvolution, RefusesWhatDoesNotFitAndGradients) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 6, 6, 4}), w = placeholder(graph, "w", {3, 3, 4, 8});
  const Value b = placeholder(graph, "b", {8});
  const FusedConvolutionOptions options{.convolution = plain(Conv2dOptions{.stride = 2})};
  const Value y = fused_convolution(x, w, b, {}, options);
  EXPECT_EQ(y.type().text(), "f32[?,3,3,8]");
  EXPECT_THROW(fused_convolution(x, w, placeholder(graph, "b", {4}), {}, options), ShapeError);
  EXPECT_THROW(fused_convolution(x, w, b, x, options), ShapeError);
  EXPECT_THROW(fused_convolution(cast(x, Dtype::bf16), w, b, {}, options), ArgumentError);
  const std::string text = error_text<ArgumentError>([&] { gradients(reduce_sum(y), {w}); });
  EXPECT_TRUE(contains(text, "made for inference")) << text;
}

}  // namespace
}  // namespace sectionflow::testing_support

#include "graph/ops/group_norm.h"

#include <cmath>
#include <string>
#include <utility>

#include "autodiff/gradients.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "tests/graph/description.h"
#include "tests/support/contains.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing_support {
namespace {

/// Of the elements in the order of memory: which example and channel each has.
struct Places {
  Places(const Shape& x, const GroupNormOptions& options)
      : channels(static_cast<std::size_t>(x[channel_axis(options.format)])),
        image(static_cast<std::size_t>(x.num_elements() / x[0])),
        inner(options.format == DataFormat::nhwc ? 1 : image / channels),
        group_channels(channels / static_cast<std::size_t>(options.groups)) {}
  std::size_t channel(std::size_t i) const { return i / inner % channels; }
  std::size_t group(std::size_t i) const {
    return i / image * (channels / group_channels) + channel(i) / group_channels;
  }

  std::size_t channels, image, inner, group_channels;
};

// Inputs: x, scale, shift.
std::vector<Doubles> group_norm_reference(const std::vector<Doubles>& in, const Shape& x,
                                          const GroupNormOptions& options) {
  const auto num_groups = static_cast<std::size_t>(x[0] * options.groups);
  Doubles y = in[0], means(num_groups), rstds(num_groups);
  if (x.num_elements() == 0) {
    for (double& rstd : rstds) rstd = 1 / std::sqrt(static_cast<double>(options.epsilon));
    return {y, means, rstds};
  }
  const Places at(x, options);
  const double count = static_cast<double>(y.size()) / static_cast<double>(num_groups);
  for (std::size_t i = 0; i < y.size(); ++i) means[at.group(i)] += y[i] / count;
  for (std::size_t i = 0; i < y.size(); ++i) {
    rstds[at.group(i)] += (y[i] - means[at.group(i)]) * (y[i] - means[at.group(i)]) / count;
  }
  for (double& rstd : rstds) rstd = 1 / std::sqrt(rstd + static_cast<double>(options.epsilon));
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = (y[i] - means[at.group(i)]) * rstds[at.group(i)] * in[1][at.channel(i)] + in[2][at.channel(i)];
  }
  return {y, means, rstds};
}

OpCase group_norm_case(const std::string& name, Shape x, std::int64_t groups, DataFormat format, double low = -2,
                       double high = 2) {
  const GroupNormOptions options{.groups = groups, .epsilon = 1e-3F, .format = format};
  const Shape channels{x[channel_axis(format)]};
  return {.name = name + (format == DataFormat::nhwc ? "_nhwc" : "_nchw"),
          .inputs = {input(x, low, high), parameter(channels, 0.5, 1.5), parameter(channels)},
          .build =
              [=](Graph&, const std::vector<Value>& in) {
                Node& node = group_norm(in[0], in[1], in[2], options).node();
                return std::vector{node.output(0), node.output(1), node.output(2)};
              },
          .reference = [=](const std::vector<Doubles>& in) { return group_norm_reference(in, x, options); },
          .tolerance = {.relative = 8, .absolute = 16},
          .gradient_tolerance = {.relative = 64, .absolute = 64},
          .dynamic_batch = true,
          .same_bits_for_any_threads = true};
}

std::vector<OpCase> group_norm_cases() {
  constexpr auto nhwc = DataFormat::nhwc, nchw = DataFormat::nchw;
  return {group_norm_case("vectors", {5, 12}, 3, nhwc),
          group_norm_case("vectors", {5, 12}, 3, nchw),
          group_norm_case("one_group", {3, 4, 5, 6}, 1, nhwc),
          group_norm_case("one_group", {3, 6, 4, 5}, 1, nchw),
          group_norm_case("instances", {3, 7, 5, 3}, 3, nhwc),
          group_norm_case("instances", {3, 3, 7, 5}, 3, nchw),
          group_norm_case("instances_of_one_place", {3, 1, 1, 4}, 4, nhwc),
          group_norm_case("images", {4, 9, 11, 32}, 8, nhwc),
          group_norm_case("images", {4, 32, 9, 11}, 8, nchw),
          group_norm_case("packs", {2, 16, 16, 64}, 4, nhwc),
          group_norm_case("packs", {2, 64, 16, 16}, 4, nchw),
          group_norm_case("odd_channels", {2, 13, 7, 21}, 7, nhwc),
          group_norm_case("odd_channels", {2, 21, 13, 7}, 7, nchw),
          group_norm_case("one_large_image", {1, 61, 67, 24}, 6, nhwc),
          group_norm_case("one_large_image", {1, 24, 61, 67}, 6, nchw),
          group_norm_case("many_channels", {2, 3, 3, 600}, 2, nhwc),
          group_norm_case("many_channels", {2, 1200, 3, 2}, 1, nchw),
          group_norm_case("volumes", {2, 5, 4, 3, 8}, 2, nhwc),
          group_norm_case("volumes", {2, 8, 5, 4, 3}, 2, nchw),
          group_norm_case("many_images", {150, 3, 2, 8}, 2, nhwc),
          group_norm_case("many_images", {150, 8, 3, 2}, 2, nchw),
          group_norm_case("no_images", {0, 3, 2, 8}, 2, nhwc),
          group_norm_case("no_images", {0, 8, 3, 2}, 2, nchw),
          group_norm_case("no_places", {2, 3, 0, 8}, 2, nhwc),
          group_norm_case("no_places", {2, 8, 3, 0}, 2, nchw)};
}

class GroupNormCases : public testing::TestWithParam<OpCase> {};
TEST_P(GroupNormCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, GroupNormCases, testing::ValuesIn(group_norm_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Bf16, GroupNormCases,
                         testing::Values(in_bf16(group_norm_case("images", {4, 9, 11, 32}, 8, DataFormat::nhwc), {0}),
                                         in_bf16(group_norm_case("odd_channels", {2, 21, 13, 7}, 7, DataFormat::nchw),
                                                 {0})),
                         case_name);

TEST(GroupNorm, VarianceOfValuesFarFromZeroIsAccurate) {
  for (const DataFormat format : {DataFormat::nhwc, DataFormat::nchw}) {
    const Shape x = format == DataFormat::nhwc ? Shape{2, 20, 25, 4} : Shape{2, 4, 20, 25};
    OpCase far = group_norm_case("far_from_zero", x, 2, format, 999, 1001);
    far.tolerance = {.relative = 8, .absolute = 2000};  // one rounding of the mean: see layer_norm's
    far.gradient_outputs = {};
    check(far);
  }
}

TEST(GroupNorm, RefusesOtherShapesAndTypes) {
  Graph graph;
  const auto in = [&](Shape shape, Dtype dtype = Dtype::f32) {
    return placeholder(graph, "x", std::move(shape), dtype);
  };
  const Value x = in({4, 3, 6}), six = in({6});
  const auto before = description(graph);
  const auto refused = [&]<class Wanted>(Wanted*, const std::function<void()>& call, const std::string& wanted) {
    const std::string text = error_text<Wanted>(call);
    EXPECT_TRUE(text.starts_with("group_norm") && contains(text, wanted)) << text;
    EXPECT_EQ(description(graph), before);
  };
  ShapeError* shape = nullptr;
  ArgumentError* argument = nullptr;
  refused(
      argument, [&] { group_norm(x, six, six, {}); }, "groups is 0; wanted > 0");
  refused(
      argument, [&] { group_norm(x, six, six, {.groups = 2, .epsilon = -1}); }, "epsilon -1; wanted >= 0");
  refused(
      argument, [&] { group_norm(x, six, six, {.groups = 2, .name = "gn"}); }, "an option of the layer alone");
  refused(
      shape, [&] { group_norm(six, six, six, {.groups = 2}); }, "got [6]; wanted [..., C] of rank 2");
  refused(
      shape, [&] { group_norm(x, six, six, {.groups = 4}); }, "4 groups, which do not divide the 6 channels");
  refused(
      shape, [&] { group_norm(x, six, six, {.groups = 2, .format = DataFormat::nchw}); }, "the 3 channels");
  refused(
      shape, [&] { group_norm(x, six, x, {.groups = 2}); }, "as input 2, [4,3,6]; wanted [6]");
}

TEST(GroupNorm, RefusesOtherDtypes) {
  Graph graph;
  const Value six = placeholder(graph, "c", {6});
  EXPECT_TRUE(contains(error_text<ArgumentError>([&] {
                         group_norm(placeholder(graph, "x", {4, 6}, Dtype::f64), six, six, {.groups = 2});
                       }),
                       "f64[4,6]; wanted f32 or bf16"));
}

TEST(GroupNorm, RefusesALossOfItsStatisticsAndSecondDerivativesOfUnknownChannels) {
  Graph graph;
  const Value x = placeholder(graph, "x", {4, 6}), c = placeholder(graph, "c", {6});
  EXPECT_THROW(gradients(reduce_sum(group_norm(x, c, c, {.groups = 2}).node().output(1)), {x}), ArgumentError);
  const Value open = placeholder(graph, "open", {4, kDynamic}), any = placeholder(graph, "any", {kDynamic});
  const Value slope = gradients(reduce_sum(group_norm(open, any, any, {.groups = 2})), {open})[0];
  EXPECT_TRUE(contains(error_text<ArgumentError>([&] { gradients(reduce_sum(slope), {open}); }),
                       "a second derivative wants the channels known before a run"));
}

}  // namespace
}  // namespace sectionflow::testing_support

// One struct of options for a convolution that makes its kernel and for one that is given it.
#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <vector>

#include "graph/layers.h"
#include "graph/nodes/convolution.h"
#include "graph/ops/basic.h"
#include "graph/ops/convolution.h"
#include "graph/ops/update.h"
#include "tests/graph/description.h"
#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing_support::contains;

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_TRUE(contains(text, part)) << "wanted " << part << " in: " << text;
}

class ConvolutionOptionsTest : public testing::Test {
 protected:
  /// Expects the call to be refused with all of `parts` in the text, and to leave the graph as it was.
  template <class Call>
  void expect_refused(const Call& call, const std::vector<std::string>& parts) {
    const auto before = testing_support::description(graph_);
    expect_parts(error_text<ArgumentError>(call), parts);
    EXPECT_EQ(testing_support::description(graph_), before);
  }

  Graph graph_;
  Value x_ = placeholder(graph_, "x", {2, 8, 8, 6}), volume_ = placeholder(graph_, "volume", {2, 8, 8, 8, 6});
  Value w_ = placeholder(graph_, "w", {3, 5, 3, 4}), w3_ = placeholder(graph_, "w3", {3, 3, 3, 6, 4});
  Value up_ = placeholder(graph_, "up", {2, 2, 4, 6}), up3_ = placeholder(graph_, "up3", {2, 2, 2, 4, 6});
};

TEST_F(ConvolutionOptionsTest, LayerAndOperationMakeTheSameNode) {
  const auto fields = [](Value y) { return y.node().options<ConvolutionOptions>(); };
  const Conv2dOptions options{.stride = {2, 1}, .padding = Padding({1, 0}, {0, 2}), .dilation = {1, 2}, .groups = 2};
  Conv2dOptions of_layer = options;
  of_layer.features = 4;
  of_layer.kernel = {3, 5};
  const Value made = conv2d(x_, of_layer), given = conv2d(x_, w_, options);
  EXPECT_EQ(made.type(), given.type());
  for (const ConvolutionOptions& kept : {fields(made), fields(given)}) {
    EXPECT_EQ(kept.steps.stride, (std::vector<std::int64_t>{2, 1}));
    EXPECT_EQ(kept.steps.dilation, (std::vector<std::int64_t>{1, 2}));
    EXPECT_EQ(kept.steps.padding, PaddingKind::fixed);
    EXPECT_EQ(kept.steps.before, (std::vector<std::int64_t>{1, 0}));
    EXPECT_EQ(kept.steps.after, (std::vector<std::int64_t>{0, 2}));
    EXPECT_EQ(kept.groups, 2);
    EXPECT_TRUE(kept.output_padding.empty());
  }
  const Value up = conv_transpose2d(x_, {.features = 4, .stride = 2, .padding = 1, .output_padding = {1, 0}});
  EXPECT_EQ(fields(up).output_padding, (std::vector<std::int64_t>{1, 0}));
}

TEST_F(ConvolutionOptionsTest, ALayerWithoutANameHasThatOfItsOperation) {
  conv2d(x_, {.features = 4});
  conv3d(volume_, {.features = 4});
  conv_transpose2d(x_, {.features = 4});
  conv_transpose3d(volume_, {.features = 4, .name = "mine"});
  std::vector<std::string> names;
  for (const Value& variable : graph_.values(kTrainableVariables)) names.push_back(variable.name());
  EXPECT_EQ(names,
            (std::vector<std::string>{"conv2d/kernel", "conv3d/kernel", "conv_transpose2d/kernel", "mine/kernel"}));
}

TEST_F(ConvolutionOptionsTest, WhatAKernelSaysMayBeSaidAgain) {
  EXPECT_EQ(conv2d(x_, w_, {.features = 4, .kernel = {3, 5}, .groups = 2}).shape(), (Shape{2, 8, 8, 4}));
  EXPECT_EQ(conv3d(volume_, w3_, {.features = 4, .kernel = 3}).shape(), (Shape{2, 8, 8, 8, 4}));
  EXPECT_EQ(conv_transpose2d(x_, up_, {.features = 4, .kernel = 2}).shape(), (Shape{2, 8, 8, 4}));
  EXPECT_EQ(conv_transpose3d(volume_, up3_, {.features = 8, .kernel = 2, .groups = 2}).shape(), (Shape{2, 8, 8, 8, 8}));
}

TEST_F(ConvolutionOptionsTest, WhatAKernelContradictsIsRefused) {
  expect_refused([&] { conv2d(x_, w_, {.features = 16, .groups = 2}); },
                 {"conv2d: features is 16, and w [3,5,3,4] gives 4", "leave .features out"});
  expect_refused([&] { conv2d(x_, w_, {.kernel = 5, .groups = 2}); },
                 {"conv2d: kernel is {5, 5}, and w [3,5,3,4] has {3, 5}", "leave .kernel out"});
  expect_refused([&] { conv3d(volume_, w3_, {.features = 3}); }, {"conv3d: features is 3", "gives 4"});
  expect_refused([&] { conv_transpose2d(x_, up_, {.features = 4, .groups = 2}); },
                 {"conv_transpose2d: features is 4, and w [2,2,4,6] gives 8"});
  expect_refused(
      [&] {
        conv_transpose3d(volume_, up3_, {.kernel = {2, 2, 1}});
      },
      {"conv_transpose3d: kernel is {2, 2, 1}", "has {2, 2, 2}"});
}

TEST_F(ConvolutionOptionsTest, WhatOnlyALayerHasIsRefusedBesideAKernel) {
  expect_refused([&] { conv2d(x_, w_, {.groups = 2, .bias = true}); },
                 {"conv2d got a kernel w and .bias; wanted one of them", "leave w out, or .bias", "where"});
  expect_refused([&] { conv3d(volume_, w3_, {.kernel_initializer = ones()}); },
                 {"conv3d got a kernel w and .kernel_initializer"});
  expect_refused([&] { conv_transpose2d(x_, up_, {.bias_initializer = zeros()}); },
                 {"conv_transpose2d got a kernel w and .bias_initializer"});
  expect_refused([&] { conv_transpose3d(volume_, up3_, {.name = "up"}); },
                 {"conv_transpose3d got a kernel w and .name"});
  expect_refused([&] { conv2d_backward_filter(x_, x_, w_, {.name = "dw"}); },
                 {"conv2d_backward_filter got a kernel w and .name"});
}

TEST_F(ConvolutionOptionsTest, OnlyTransposedConvolutionsHaveOutputPadding) {
  expect_refused(
      [&] {
        conv2d(x_, {.features = 4, .stride = 2, .output_padding = {1, 0}, .name = "c"});
      },
      {"conv2d 'c': output_padding is {1, 0}; wanted 0", "only conv_transpose2d has it"});
  expect_refused([&] { conv2d(x_, w_, {.output_padding = 1, .groups = 2}); }, {"conv2d: output_padding is {1, 1}"});
  expect_refused([&] { conv3d(volume_, {.features = 4, .output_padding = 1}); }, {"conv3d 'conv3d': output_padding"});
  expect_refused([&] { conv3d(volume_, w3_, {.output_padding = {0, 0, 1}}); }, {"conv3d: output_padding is {0, 0, 1}"});
}

TEST_F(ConvolutionOptionsTest, WrongGroupsFiltersAndKernelsAreRefusedAlikeInBothForms) {
  expect_refused([&] { conv2d(x_, {.features = 4, .groups = 4, .name = "c"}); },
                 {"conv2d 'c': 6 channels and 4 filters in 4 groups; wanted multiples"});
  expect_refused([&] { conv2d(x_, w_, {.groups = 4}); }, {"conv2d 'conv2d': 6 channels and 4 filters in 4 groups"});
  expect_refused([&] { conv_transpose2d(x_, {.features = 3, .groups = 2, .name = "c"}); },
                 {"conv_transpose2d 'c': 6 channels and 3 filters in 2 groups"});
  expect_refused([&] { conv2d(x_, {.features = 4, .groups = -1}); }, {"conv2d 'conv2d': groups -1; wanted >= 1"});
  expect_refused([&] { conv2d(x_, w_, {.groups = -1}); }, {"conv2d 'conv2d': groups -1; wanted >= 1"});
  expect_refused([&] { conv2d(x_, {.kernel = 1, .name = "c"}); }, {"conv2d 'c': features is 0; wanted > 0"});
}

TEST_F(ConvolutionOptionsTest, ValuesThatAreNoneAreRefusedWhereverTheyStand) {
  EXPECT_THROW(conv2d(Value(), w_), ArgumentError);
  EXPECT_THROW(conv2d(Value(), {.features = 4}), ArgumentError);
  expect_parts(error_text<ArgumentError>([&] { conv2d(x_, Value(), {.features = 4}); }),
               {"input 1 is a default-constructed Value"});
}

}  // namespace
}  // namespace sectionflow

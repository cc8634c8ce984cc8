#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "autodiff/optimizers.h"
#include "graph/ops/basic.h"
#include "tests/autodiff/weight.h"
#include "tests/support/contains.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tolerance.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// Two weights with the gradients (3, -4) and (12): a norm of 13.
struct Clipping {
  Clipping() : a(weight(graph, "a", {2})), b(weight(graph, "b", {1})) {
    pairs = {{placeholder(graph, "da", {2}), a}, {placeholder(graph, "db", {1}), b}};
    feeds.emplace(pairs[0].gradient, HostTensor::of<float>({2}, {3, -4}));
    feeds.emplace(pairs[1].gradient, HostTensor::of<float>({1}, {12}));
  }
  std::vector<HostTensor> run(const ClippedGradients& clipped) {
    return run_kernels({clipped.norm, clipped.gradients[0].gradient, clipped.gradients[1].gradient}, feeds);
  }

  Graph graph;
  Value a, b;
  std::vector<GradientAndVariable> pairs;
  Feeds feeds;
};

TEST(ClipByGlobalNorm, ScalesAllGradientsTogether) {
  Clipping c;
  const ClippedGradients clipped = clip_by_global_norm(c.pairs, 6.5F);
  EXPECT_EQ(clipped.gradients[0].variable, c.a);
  EXPECT_EQ(clipped.gradients[1].variable, c.b);
  const auto results = c.run(clipped);
  EXPECT_EQ(results[0].item<float>(), 13.0F);
  EXPECT_TRUE(same_bits(results[1], HostTensor::of<float>({2}, {1.5F, -2})));
  EXPECT_TRUE(same_bits(results[2], HostTensor::of<float>({1}, {6})));
}

TEST(ClipByGlobalNorm, KeepsTheBitsOfShortGradients) {
  Clipping c;
  const auto results = c.run(clip_by_global_norm(c.pairs, 13.0F));
  EXPECT_TRUE(same_bits(results[1], c.feeds.at(c.pairs[0].gradient)));
  EXPECT_TRUE(same_bits(results[2], c.feeds.at(c.pairs[1].gradient)));
}

TEST(ClipByGlobalNorm, MakesAllGradientsNaNWhereTheNormIsNoNumber) {
  for (float special : {INFINITY, NAN}) {
    Clipping c;
    c.feeds.insert_or_assign(c.pairs[1].gradient, HostTensor::of<float>({1}, {special}));
    const auto results = c.run(clip_by_global_norm(c.pairs, 1.0F));
    for (int i : {1, 2}) {
      for (float value : results[static_cast<std::size_t>(i)].values<float>()) EXPECT_TRUE(std::isnan(value));
    }
  }
}

TEST(ClipByGlobalNorm, RefusedCallsAddNothing) {
  Clipping c;
  const int before = c.graph.num_nodes();
  EXPECT_TRUE(
      contains(error_text<ArgumentError>([&] { clip_by_global_norm({}, 1); }), "clip_by_global_norm got no gradients"));
  for (float max_norm : {0.0F, -1.0F, NAN, INFINITY}) {
    EXPECT_TRUE(contains(error_text<ArgumentError>([&] { clip_by_global_norm(c.pairs, max_norm); }), "max_norm is"));
  }
  c.pairs.push_back(c.pairs[0]);
  EXPECT_TRUE(contains(error_text<ArgumentError>([&] { clip_by_global_norm(c.pairs, 1); }),
                       "clip_by_global_norm: variable 'a' is named twice"));
  EXPECT_EQ(c.graph.num_nodes(), before);
}

}  // namespace
}  // namespace sectionflow

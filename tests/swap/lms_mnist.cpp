// The tutorial's network: what the original's log says of it, and what ours does.

#include <gtest/gtest.h>

#include "examples/models/mnist_deep.h"
#include "graph/op_def.h"
#include "swap/lms.h"
#include "tests/support/contains.h"

namespace sectionflow {
namespace {

LmsOptions tutorial(int threshold) {
  return {.swapout_threshold = threshold,
          .swapin_groupby = 2,
          .swapin_ahead = 3,
          .excl_output_by_scopes = {"loss", "accuracy", "dropout"}};
}

LmsResult edited(const LmsOptions& options) {
  Graph graph;
  build_mnist_deep(graph);
  return Lms(options).run(graph);
}

TEST(LmsMnist, SaysWhatTheTutorialSaysOfTheModel) {
  const LmsResult result = edited(tutorial(50));
  EXPECT_EQ(result.parameter_bytes, 3274634U * 4);
  // Five tensors of the first dense layer's kernel and two scalars: ours has the decay rates in its options.
  EXPECT_EQ(result.largest_op_bytes, 5U * 3136 * 1024 * 4 + 4 + 8);
  std::string log;
  for (const std::string& line : result.log) log += line + "\n";
  EXPECT_TRUE(testing_support::contains(log, "12.49 MiB of learning parameters")) << log;
  EXPECT_TRUE(testing_support::contains(log, "consuming 0.06 GiB")) << log;
}

std::vector<std::string> swapped_tensors(const LmsOptions& options) {
  Graph graph;
  build_mnist_deep(graph);
  Lms(options).run(graph);
  std::vector<std::string> names;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op().movement == Movement::out) names.push_back(node.inputs()[0].name());
  }
  return names;
}

// The original's graph has 377 vertices, 483 edges and 94 levels, and 6 swap-outs and 7 swap-ins at a threshold of 50.
// Ours says the same network in 131 nodes and 31 levels: an optimiser's update, a dropout, a cross entropy, and each of
// their gradients is one node here and many there. A third of the threshold, rounded down to where nothing changes, is
// 10; it gives six swap-outs too. Of the original's seven swap-ins one is for a second reader of a tensor: its gradient
// of max pooling reads the pool's input and its output, ours the places of the maxima, a byte each, instead.
TEST(LmsMnist, SwapsAsTheTutorialAtAThresholdOfItsLevels) {
  const LmsResult far = edited(tutorial(50));
  EXPECT_EQ(far.num_vertices, 131);
  EXPECT_EQ(far.num_edges, 175);
  EXPECT_EQ(far.num_levels, 31);
  EXPECT_EQ(far.num_swap_outs, 0);
  const LmsResult result = edited(tutorial(10));
  EXPECT_EQ(result.num_swap_outs, 6);
  EXPECT_EQ(result.num_swap_ins, 6);
  EXPECT_EQ(result.num_trigger_edges, 6);
  EXPECT_EQ(swapped_tensors(tutorial(10)),
            (std::vector<std::string>{"conv1/relu", "pool1/max_pool2d", "pool1/max_pool2d:1", "conv2/relu",
                                      "pool2/max_pool2d:1", "fc1/reshape"}));
}

TEST(LmsMnist, SaysOnceThatAThresholdAboveAllDistancesSwapsNothing) {
  const auto lines_about_it = [](const LmsOptions& options) {
    std::vector<std::string> lines;
    for (const std::string& line : edited(options).log) {
      if (testing_support::contains(line, "Nothing is swapped")) lines.push_back(line);
    }
    return lines;
  };
  const auto lines = lines_about_it(tutorial(50));
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_TRUE(testing_support::contains(
      lines[0], "the graph has 31 levels, and no edge that may be swapped has a distance above 50; the distances are "))
      << lines[0];
  // A threshold below the largest distance it tells swaps something.
  const std::string marker = "the distances are ";
  const int farthest = std::stoi(lines[0].substr(lines[0].find(marker) + marker.size()));
  EXPECT_TRUE(lines_about_it(tutorial(farthest - 1)).empty());
  EXPECT_EQ(lines_about_it(tutorial(farthest)).size(), 1U);
  LmsOptions none = tutorial(50);
  none.incl_output_by_types = {"placeholder"};
  const auto without_edges = lines_about_it(none);
  ASSERT_EQ(without_edges.size(), 1U);
  EXPECT_TRUE(testing_support::contains(without_edges[0], "the graph has no edge that may be")) << without_edges[0];
}

// Swapping cannot help this network in the simulation, which knows no work in place: the gradient of the first relu
// reads two tensors of the largest size and writes a third, at the end, where nothing else is left. The tutorial gives
// its parameters for that reason: found by simulation they would be "none needed".
TEST(LmsMnist, TheSearchSaysThatSwapsAreNotNeededOrDoNotHelp) {
  LmsOptions options = tutorial(1000);
  options.batch_size = 500;
  const std::size_t whole = edited(options).simulated_peak_bytes;
  options.swapout_threshold = 1;
  options.sync_mode = 3;
  EXPECT_EQ(edited(options).simulated_peak_bytes, whole);
  options.swapout_threshold = options.swapin_ahead = options.swapin_groupby = -1;
  options.sync_mode = 0;
  const auto gib_for = [](std::size_t budget) {
    return ((static_cast<double>(budget) + 0.5) / 0.9 + 3274634.0 * 4) / 1073741824.0;
  };
  options.autotune_gpu_mem = gib_for(whole + 1);
  const LmsResult result = edited(options);
  EXPECT_TRUE(result.not_necessary);
  EXPECT_EQ(result.budget_bytes, whole + 1);
  EXPECT_EQ(result.simulated_peak_bytes, whole);
  options.autotune_gpu_mem = gib_for(whole);
  EXPECT_THROW(edited(options), ArgumentError);
}

}  // namespace
}  // namespace sectionflow

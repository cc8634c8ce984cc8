// Graphs as large as the largest that the ancestor of Lms is known to have edited, of 58,391 vertices. Times are told,
// not tested: a search or a pass that grows with the square shows by taking minutes.

#include <gtest/gtest.h>

#include <chrono>
#include <iostream>

#include "autodiff/optimizers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "tests/swap/lms_graphs.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// Training of a chain of residual blocks, x + relu(x * w).
void build_residual_chain(Graph& graph, int num_blocks) {
  Value x = placeholder(graph, "x", {64, 64});
  for (int block = 0; block < num_blocks; ++block) {
    const auto scope = graph.scope(text_of("block_", block));
    const Value w = variable("w", fill(graph, {64}, 0.5F));
    x = add(x, relu(mul(x, w)));
  }
  apply_gradients(Momentum{}, compute_gradients(mean(x)));
}

LmsResult edit_chain(const char* what, const LmsOptions& options, int num_blocks = 3893) {
  Graph graph;
  build_residual_chain(graph, num_blocks);
  const auto start = std::chrono::steady_clock::now();
  LmsResult result = Lms(options).run(graph);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::cout << what << ": " << result.num_vertices << " vertices, " << result.num_edges << " edges, "
            << result.num_levels << " levels, " << result.num_swap_outs << " swap-outs and " << result.num_swap_ins
            << " swap-ins in " << seconds.count() << " s\n";
  EXPECT_EQ(Lms(options).run(graph).already_edited, result.num_swap_outs > 0);
  return result;
}

LmsOptions with_parameters(int threshold, int sync_mode = 0) {
  return {.swapout_threshold = threshold, .swapin_groupby = 5, .swapin_ahead = 20, .sync_mode = sync_mode};
}

/// GiB that offer this many bytes to the simulation.
double memory_for(double bytes, const LmsResult& result) {
  constexpr double kGiB = 1024.0 * 1024.0 * 1024.0, kRatio = 0.9;
  return (bytes / kRatio + static_cast<double>(result.parameter_bytes)) / kGiB;
}

TEST(LmsOfLargeGraphs, TakesTheParametersInEverySyncMode) {
  const LmsResult whole = edit_chain("nothing to swap", with_parameters(1'000'000));
  EXPECT_GE(whole.num_vertices, 58'391);
  EXPECT_EQ(whole.num_swap_outs, 0);
  for (const int sync_mode : {0, 1, 2, 3}) {
    const LmsResult result = edit_chain(text_of("sync mode ", sync_mode).c_str(), with_parameters(40, sync_mode));
    EXPECT_GT(result.num_swap_ins, 7000);
    EXPECT_LT(result.simulated_peak_bytes, whole.simulated_peak_bytes / 20);
  }
}

TEST(LmsOfLargeGraphs, FindsParametersThatFit) {
  const LmsResult whole = edit_chain("nothing to swap", with_parameters(1'000'000));
  const auto bytes = static_cast<double>(whole.simulated_peak_bytes);
  const LmsResult half = edit_chain("half of the memory", {.autotune_gpu_mem = memory_for(bytes / 2, whole)});
  EXPECT_LT(half.simulated_peak_bytes, half.budget_bytes);
  EXPECT_GT(half.num_swap_outs, 3000);
  // The largest groupby that fits is one of thousands.
  const LmsResult grouped =
      edit_chain("a groupby", {.swapout_threshold = 1, .autotune_gpu_mem = memory_for(bytes / 30, whole)});
  EXPECT_LT(grouped.simulated_peak_bytes, grouped.budget_bytes);
  EXPECT_GT(grouped.swapin_groupby, 100);
  EXPECT_LT(grouped.swapin_groupby, 10'000);
}

TEST(LmsOfLargeGraphs, TheGroupbyFoundIsTheLargestThatFits) {
  const LmsResult whole = edit_chain("nothing to swap", with_parameters(1'000'000), 60);
  const auto bytes = static_cast<double>(whole.simulated_peak_bytes);
  for (const double share : {0.25, 0.3, 0.4, 0.5}) {
    LmsOptions options{.swapout_threshold = 1, .autotune_gpu_mem = memory_for(bytes * share, whole)};
    const LmsResult found = edit_chain("a groupby", options, 60);
    ASSERT_TRUE(found.fits);
    ASSERT_GT(found.swapin_groupby, 0);
    options.swapin_ahead = found.swapin_ahead;
    options.autotune_gpu_mem.reset();
    for (int groupby = found.swapin_groupby; groupby < found.num_levels; ++groupby) {
      options.swapin_groupby = groupby;
      Graph graph;
      build_residual_chain(graph, 60);
      const std::size_t peak = Lms(options).run(graph).simulated_peak_bytes;
      // Numbers between two gaps group alike: the search names the last of them.
      EXPECT_EQ(peak < found.budget_bytes, groupby == found.swapin_groupby) << groupby;
    }
  }
}

}  // namespace
}  // namespace sectionflow

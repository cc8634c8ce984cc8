#pragma once

#include <string_view>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

// Tensors of random f32 numbers. Element e of a node's output is a function of (session seed, the node's ordinal among
// the graph's random nodes, completed training cycles, e) alone: the same in every recomputation, thread count and cut.

/// Where a normal distribution lies and how wide it is.
struct NormalOptions {
  float mean = 0;
  float stddev = 1;  ///< > 0
};
/// Normally distributed numbers.
Value random_normal(Graph& graph, Shape shape, NormalOptions options = {}, std::string_view name = "random_normal",
                    Where where = Where::here());
/// Normally distributed numbers; those further than two standard deviations from the mean are drawn again.
Value truncated_normal(Graph& graph, Shape shape, NormalOptions options = {},
                       std::string_view name = "truncated_normal", Where where = Where::here());

/// The range of a uniform distribution.
struct UniformOptions {
  float low = 0;   ///< inclusive
  float high = 1;  ///< exclusive up to rounding; > low
};
/// Uniform numbers of [low, high). Shapes: result `shape`, f32.
Value random_uniform(Graph& graph, Shape shape, UniformOptions options = {}, std::string_view name = "random_uniform",
                     Where where = Where::here());

}  // namespace sectionflow

#pragma once

#include <cstdint>
#include <string_view>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

// Tensors of random f32 numbers. Element e of a node's output is a function of (session seed, the node's ordinal among
// the graph's random nodes, completed training cycles, e) alone: the same in every recomputation, thread count and cut,
// and in every run between two training cycles.

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

// The same under the shape of x, of which nothing else is read, and which the feed may decide. Shapes: x any, of any
// dtype; result like x, f32. No gradient.

/// Uniform numbers of [low, high) under the shape of x.
Value random_uniform_like(Value x, UniformOptions options = {}, Where where = Where::here());
/// Normally distributed numbers under the shape of x.
Value random_normal_like(Value x, NormalOptions options = {}, Where where = Where::here());
/// -ln(-ln u) of uniform numbers u, under the shape of x: where they are added to ln p, the largest is that of class c
/// with the probability p_c, and the k largest are k draws without replacement. From -2.9 to 22.9. Source:
/// Kool et al. 2019, Stochastic beams and where to find them.
Value random_gumbel_like(Value x, Where where = Where::here());

/// How often categorical draws.
struct CategoricalOptions {
  std::int64_t draws = 0;  ///< of each row, along a last axis of the result; 0: one draw, and no axis for it
};

/// Classes drawn by softmax(logits) along the last axis, each draw by itself (with replacement), from the seed, as
/// above: class c where a uniform number of 53 bits falls between the sums of the probabilities up to c: of up to 64
/// in f32, of these in double.
/// A class of probability 0 is never drawn. A row that has no distribution (NaN or infinity in it, nothing but
/// -infinity) gives -1, for which gather has no row.
/// Shapes: logits [..., C] f32 or bf16 with C >= 1; result [...] or [..., draws], i32. No gradient.
/// Throws: ShapeError for a scalar or C = 0, ArgumentError for another dtype and draws < 0.
Value categorical(Value logits, CategoricalOptions options = {}, Where where = Where::here());

}  // namespace sectionflow

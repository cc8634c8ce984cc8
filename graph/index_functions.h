#pragma once

#include <cstdint>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

// Functions of places, of segments and of draws, composed of operations.

/// Elements, or parts, of x at places of several indices: y[..., rest] = x[indices[..., 0], ..., indices[..., m - 1],
/// rest]. A place outside of x gives NaN, or 0 where x is not of floats, and adds nothing to the gradient of x.
/// Shapes: x of rank m or more, of which all dimensions but the first are known; indices [..., m] i32 or i64 with
/// m >= 1; result the indices' shape without m, then x's without its first m. Any dtype, gradients of floats.
/// Throws: ShapeError, ArgumentError for other indices.
Value gather_nd(Value x, Value indices, Where where = Where::here());

/// take_along (graph/ops/ranking.h) along any axis, negative ones counted from the end: an index is a place along it.
/// But of the last axis it copies x, the indices and the result once, with that axis in the last one's place.
/// Shapes: x any, of one axis at least; indices i32 or i64, of x's sizes but along the axis; result like the indices.
/// Any dtype, gradients of floats. Throws: ShapeError, ArgumentError for other indices.
Value take_along(Value x, Value indices, int axis, Where where = Where::here());

// Of rows that belong to the same segment, whatever their order: ids say to which of `num_segments` each row of x
// belongs; what is outside [0, num_segments) belongs to none. Shapes: ids [...] i32 or i64; x the ids' shape, then
// dimensions that are known; result [num_segments, these]. f32 or bf16. Throws: ShapeError, ArgumentError for other
// dtypes and num_segments < 1.

/// The sum of each segment's rows, added in f32 in their order; 0 where there are none.
Value segment_sum(Value x, Value ids, std::int64_t num_segments, Where where = Where::here());
/// Their mean; 0 where there are none. Rows are counted in f32, exactly up to 2^24 a segment.
Value segment_mean(Value x, Value ids, std::int64_t num_segments, Where where = Where::here());
/// The largest of each of their elements, NaN where one is; -infinity where there are none. Elements that are equally
/// large have equal shares of the gradient.
Value segment_max(Value x, Value ids, std::int64_t num_segments, Where where = Where::here());

/// How multinomial draws.
struct MultinomialOptions {
  bool replacement = false;  ///< a class may be drawn again, as categorical draws
};

/// `draws` classes of each row by softmax(logits), each of which is drawn once at most: by the probabilities of those
/// that are left. Classes of probability 0 come behind all others, in their order; of a row of NaN or of infinities
/// alone, which is no distribution, the classes say nothing. The same in every recomputation, and in every run between
/// two training cycles, as all random numbers; to write a text, sample() draws (train/sample.h). Shapes: logits [...,
/// C] f32 or bf16 with C >= draws, unless there is replacement; result [..., draws] i32. No gradient. Throws:
/// ShapeError, ArgumentError for another dtype and draws < 1.
Value multinomial(Value logits, std::int64_t draws, MultinomialOptions options = {}, Where where = Where::here());

}  // namespace sectionflow

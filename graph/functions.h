#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"
#include "graph/ops/reduce.h"

namespace SF_API sectionflow {

// Functions of numbers and of shapes that are composed of operations. Floats are f32 or bf16, of which they compute in
// f32; results are of x's dtype, where nothing else is said. Throws: ArgumentError for other dtypes, ShapeError.

// ---- Reductions, along axes as those of reduce_sum: each takes ReduceOptions and wants one element at least.

/// ln sum e^x, without overflow: -infinity where every x is, +infinity where one is, NaN where one is. Its gradient is
/// the softmax, NaN beside +infinity as that is, and 0 where every x is -infinity. Within 4 epsilons of 1 + |y| for a
/// thousand elements. Shapes: x any, floats; result x without (or with 1 for) the reduced axes.
Value logsumexp(Value x, ReduceOptions options = {}, Where where = Where::here());

/// The product, of pairs, then of pairs of these, and so on: within n / 2 epsilons of itself for n elements. No
/// gradient divides, so that each is exact where elements are 0, and so are gradients of gradients.
/// It is 2 operations for each time that n is halved. They write about 3 times the bytes of x, the gradient 4 times,
/// for which 2 times as many are kept. Shapes: as logsumexp, reduced axes of known size.
Value reduce_prod(Value x, ReduceOptions options = {}, Where where = Where::here());

/// The mean of x, and that of (x - mean)^2: n / (n - 1) times that is the variance of a sample.
struct Moments {
  Value mean, variance;
};
/// Both, of two passes over x: large means cost no digits of the variance. Shapes: as logsumexp, each.
Moments moments(Value x, ReduceOptions options = {}, Where where = Where::here());
/// The variance of `moments`.
Value reduce_variance(Value x, ReduceOptions options = {}, Where where = Where::here());

/// Whether one of the booleans is true. Shapes: x any, boolean; result x without (or with 1 for) the reduced axes,
/// boolean. No gradient.
Value reduce_any(Value x, ReduceOptions options = {}, Where where = Where::here());
/// Whether all are. Otherwise as reduce_any.
Value reduce_all(Value x, ReduceOptions options = {}, Where where = Where::here());

// ---- Shapes. x of any dtype, gradients of floats.

/// x without `axes`, which are known to have the size 1; negative ones count from the end.
/// Shapes: x any; result the others of its dimensions. No copy. Throws: ShapeError.
Value squeeze(Value x, std::vector<int> axes, Where where = Where::here());

/// x with one more axis, of size 1, which is axis `axis` of the result; a negative one counts from its end.
/// Shapes: x any; result of one rank more. No copy.
Value expand_dims(Value x, int axis, Where where = Where::here());

/// x again and again: multiples[i] times along axis i, as in [a b] -> [a b a b].
/// Shapes: x with one unknown dimension at most; each dimension of the result is x's times its multiple.
/// Throws: ArgumentError unless `multiples` has a number >= 1 for each axis.
Value tile(Value x, std::vector<std::int64_t> multiples, Where where = Where::here());

/// Each entry along `axis` that many times, one after the other, as in [a b] -> [a a b b]. Otherwise as tile.
Value repeat(Value x, std::int64_t times, int axis, Where where = Where::here());

/// x in the opposite order along each of `axes`. Shapes: x with known sizes there; result like x.
/// It is a gather of the product of these sizes in rows: one copy where they are the first axes, in order; else three,
/// since they are brought to the front and back. A row has a number of 8 bytes, of kMostTableBytes at most.
Value flip(Value x, std::vector<int> axes, Where where = Where::here());

// ---- Numbers in a row, and what is below them.

/// The most bytes of a constant that a function works out: those of range, linspace, flip, sequence_mask and rotary.
inline constexpr std::int64_t kMostTableBytes = std::int64_t{1} << 30;
/// Throws: ArgumentError, which `label` begins, for a constant of so many numbers that it has more.
void check_table_bytes(const std::string& label, std::int64_t numbers, std::int64_t bytes_each);

/// Where a row of numbers begins, and how it goes on.
struct RangeOptions {
  std::int64_t first = 0, step = 1;
  Dtype dtype = Dtype::i64;  ///< i32, i64 or f32
};
/// A constant: first, first + step, ... Shapes: result [count]. Throws: ArgumentError for count < 0, another dtype,
/// more than kMostTableBytes, and whole numbers that the dtype has not.
Value range(Graph& graph, std::int64_t count, RangeOptions options = {}, Where where = Where::here());

/// A constant: `count` numbers from `first` to `last`, both included, in equal steps; of one, the first.
/// Shapes: result [count] f32. Throws: ArgumentError for count < 1, more than kMostTableBytes and ends that are not
/// finite.
Value linspace(Graph& graph, float first, float last, std::int64_t count, Where where = Where::here());

/// mask[..., i] = i < lengths[...]: which places of padded sequences are there. Shapes: lengths [...] i32 or i64;
/// result [..., max_length], boolean. No gradient. Throws: ArgumentError for other dtypes, max_length < 1 and more than
/// kMostTableBytes of places.
Value sequence_mask(Value lengths, std::int64_t max_length, Where where = Where::here());

}  // namespace sectionflow

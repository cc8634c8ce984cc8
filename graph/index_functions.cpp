#include "graph/index_functions.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "base/checked_arithmetic.h"
#include "base/error.h"
#include "graph/functions.h"
#include "graph/nodes/indexing.h"
#include "graph/nodes/layout.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layout.h"
#include "graph/ops/parts.h"
#include "graph/ops/random.h"
#include "graph/ops/ranking.h"
#include "graph/ops/scatter.h"
#include "graph/ops/unary.h"
#include "graph/parameter.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

/// "gather_nd: 'x' is f32[2,3], 'i' is i32[4]": begins what a function says of its inputs.
std::string said_of_both(const char* call, Value x, Value indices) {
  return text_of(call, ": '", x.name(), "' is ", x.type().text(), ", '", indices.name(), "' is ",
                 indices.type().text());
}

void check_whole(const char* call, Value x, Value indices) {
  SF_CHECK(indices.dtype() == Dtype::i32 || indices.dtype() == Dtype::i64, ArgumentError,
           said_of_both(call, x, indices), "; wanted i32 or i64", hint("cast it"));
}

Value whole_number(Graph& graph, std::int64_t number, const char* name) {
  return constant(graph, HostTensor::scalar(number), name);
}

/// Where rows begin in x as rows of what follows its first axes: -1 for a place outside of these, if their first is
/// within x.
Value row_of_place(Value x, const std::vector<Value>& indices) {
  Graph& graph = x.graph();
  std::int64_t rows_of_first = 1;
  for (std::size_t i = 1; i < indices.size(); ++i)
    rows_of_first = checked_multiply(rows_of_first, x.shape()[static_cast<int>(i)]);
  // What no tensor has, so that no product wraps around to a row that there is.
  const std::int64_t beyond = (std::int64_t{1} << 62) / std::max<std::int64_t>(1, rows_of_first);
  const Value none = whole_number(graph, -1, "none");
  Value row = minimum(maximum(indices[0], none), whole_number(graph, beyond, "beyond"));
  Value is_there;
  for (std::size_t i = 1; i < indices.size(); ++i) {
    const Value size = whole_number(graph, x.shape()[static_cast<int>(i)], "size");
    const Value fits = logical_and(greater(indices[i], none), less(indices[i], size));
    is_there = is_there.valid() ? logical_and(is_there, fits) : fits;
    row = row * size + indices[i];
  }
  return is_there.valid() ? select(is_there, row, none) : row;
}

/// [num_segments, what follows the ids' dimensions in x].
Shape segments_of(const char* call, Value x, Value ids, std::int64_t num_segments) {
  SF_CHECK(is_f32_or_bf16(x.dtype()), ArgumentError, said_of_both(call, x, ids), "; wanted f32 or bf16",
           hint("cast it"));
  check_whole(call, x, ids);
  SF_CHECK(num_segments >= 1, ArgumentError, said_of_both(call, x, ids), ", with ", num_segments,
           " segments; wanted 1 or more");
  const int rank = ids.shape().rank();
  bool fits = x.shape().rank() >= rank;
  std::vector<std::int64_t> dims = {num_segments};
  for (int i = 0; fits && i < x.shape().rank(); ++i) {
    const std::int64_t dim = x.shape()[i];
    if (i >= rank) dims.push_back(dim);
    const std::int64_t wanted = i < rank ? ids.shape()[i] : kDynamic;
    fits = i < rank ? dim == wanted || dim == kDynamic || wanted == kDynamic : dim != kDynamic;
  }
  SF_CHECK(fits, ShapeError, said_of_both(call, x, ids),
           "; wanted the ids' shape, then dimensions that are known, of '", x.name(), "'");
  return Shape(std::move(dims));
}

/// The ids, whose unknown sizes, and those of x, are held to each other.
Value held_ids(const char* call, Value x, Value ids) {
  for (int axis = 0; axis < ids.shape().rank(); ++axis) {
    if (ids.shape()[axis] == x.shape()[axis] && x.shape()[axis] != kDynamic) continue;
    ids = same_size(
        ids, x,
        {.axis = axis,
         .like_axis = axis,
         .what = text_of(call, ": dimension ", axis, " of the ids '", ids.name(), "' and of '", x.name(), "'")});
  }
  return ids;
}

/// Of numbers in f32.
Value sum_of_segments(Value x, Value ids, const Shape& segments) {
  return gather_grad(x, ids, fill(x.graph(), segments, 0, x.dtype(), "segments"));
}

}  // namespace

Value gather_nd(Value x, Value indices, Where where) {
  return x.graph().build_at(where, {x, indices}, [&] {
    const auto names = x.graph().scope("gather_nd");
    check_whole("gather_nd", x, indices);
    const int rank = x.shape().rank();
    const std::int64_t num_indices = indices.shape().rank() >= 1 ? indices.shape()[-1] : 0;
    SF_CHECK(num_indices >= 1 && num_indices <= rank, ShapeError, said_of_both("gather_nd", x, indices),
             "; wanted indices [..., m] with a known m from 1 to ", rank);
    const std::vector<std::int64_t>& dims = x.shape().dims();
    SF_CHECK(std::find(dims.begin() + 1, dims.end(), kDynamic) == dims.end(), ShapeError,
             said_of_both("gather_nd", x, indices), "; wanted all dimensions but the first known");
    const Value whole = indices.dtype() == Dtype::i64 ? indices : cast(indices, Dtype::i64);
    const Value row = row_of_place(x, split(whole, static_cast<int>(num_indices), -1));
    std::int64_t num_rows = 1;
    for (int axis = 0; axis < num_indices; ++axis) {
      const std::int64_t dim = x.shape()[axis];
      num_rows = dim == kDynamic || num_rows == kDynamic ? kDynamic : checked_multiply(num_rows, dim);
    }
    std::vector<std::int64_t> rows = {num_rows};
    rows.insert(rows.end(), dims.begin() + num_indices, dims.end());
    const Value table = num_indices == 1 ? x : reshape(x, Shape(std::move(rows)));
    return squeeze(gather(table, row), {indices.shape().rank() - 1});
  });
}

Value take_along(Value x, Value indices, int axis, Where where) {
  return x.graph().build_at(where, {x, indices}, [&] {
    const auto names = x.graph().scope("take_along");
    check_whole("take_along", x, indices);
    const int rank = x.shape().rank();
    const int place = normalized_axis(axis, rank, said_of_both("take_along", x, indices));
    bool agree = indices.shape().rank() == rank;
    for (int i = 0; agree && i < rank; ++i) {
      const std::int64_t of_x = x.shape()[i], of_indices = indices.shape()[i];
      agree = i == place || of_x == of_indices || of_x == kDynamic || of_indices == kDynamic;
    }
    SF_CHECK(agree, ShapeError, said_of_both("take_along", x, indices), "; wanted the sizes of '", x.name(),
             "' but along axis ", axis);
    if (place + 1 == rank) return take_along(x, indices);
    std::vector<int> swapped(static_cast<std::size_t>(rank));  // which is its own inverse
    std::iota(swapped.begin(), swapped.end(), 0);
    std::swap(swapped[static_cast<std::size_t>(place)], swapped.back());
    const Value by_rows = transpose(x, swapped), places = transpose(indices, swapped);
    return transpose(take_along(by_rows, places), swapped);
  });
}

Value segment_sum(Value x, Value ids, std::int64_t num_segments, Where where) {
  return x.graph().build_at(where, {x, ids}, [&] {
    const auto names = x.graph().scope("segment_sum");
    const Shape segments = segments_of("segment_sum", x, ids, num_segments);
    return sum_of_segments(x, held_ids("segment_sum", x, ids), segments);
  });
}

Value segment_mean(Value x, Value ids, std::int64_t num_segments, Where where) {
  return x.graph().build_at(where, {x, ids}, [&] {
    Graph& graph = x.graph();
    const auto names = graph.scope("segment_mean");
    const Shape segments = segments_of("segment_mean", x, ids, num_segments);
    const Value of_rows = held_ids("segment_mean", x, ids);
    const Value one_each = cast(equal(of_rows, of_rows), Dtype::f32);
    const Value count = maximum(sum_of_segments(one_each, of_rows, {num_segments}), constant(graph, 1.0F, "one"));
    std::vector<std::int64_t> dims(segments.dims().size(), 1);
    dims[0] = num_segments;
    const Value sum = sum_of_segments(in_dtype(x, Dtype::f32), of_rows, segments);
    return in_dtype(sum / reshape(count, Shape(std::move(dims))), x.dtype());
  });
}

Value segment_max(Value x, Value ids, std::int64_t num_segments, Where where) {
  return x.graph().build_at(where, {x, ids}, [&] {
    const auto names = x.graph().scope("segment_max");
    const Shape segments = segments_of("segment_max", x, ids, num_segments);
    constexpr double kNone = -std::numeric_limits<double>::infinity();
    return scatter_max(fill(x.graph(), segments, kNone, x.dtype(), "none"), held_ids("segment_max", x, ids), x);
  });
}

Value multinomial(Value logits, std::int64_t draws, MultinomialOptions options, Where where) {
  return logits.graph().build_at(where, {logits}, [&] {
    const auto names = logits.graph().scope("multinomial");
    SF_CHECK(is_f32_or_bf16(logits.dtype()) && draws >= 1, ArgumentError, "multinomial: '", logits.name(), "' is ",
             logits.type().text(), ", with ", draws, " draws; wanted f32 or bf16, and 1 draw or more");
    const std::int64_t classes = logits.shape().rank() >= 1 ? logits.shape()[-1] : 0;
    SF_CHECK(options.replacement || classes == kDynamic || draws <= classes, ArgumentError, "multinomial: '",
             logits.name(), "' is ", logits.type().text(), ", with ", draws, " draws; wanted no more than classes",
             hint("or .replacement = true"));
    if (options.replacement) return categorical(logits, {.draws = draws});
    return top_k(in_dtype(logits, Dtype::f32) + random_gumbel_like(logits), draws).indices;
  });
}

}  // namespace sectionflow

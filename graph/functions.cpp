#include "graph/functions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "base/checked_arithmetic.h"
#include "base/error.h"
#include "graph/nodes/layout.h"
#include "graph/nodes/reduce.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/identities.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layout.h"
#include "graph/ops/parts.h"
#include "graph/ops/unary.h"
#include "graph/parameter.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

/// "reduce_prod: 'x' is f32[2,3]": begins what a function says of its input.
std::string said_of(const char* call, Value x) {
  return text_of(call, ": '", x.name(), "' is ", x.type().text());
}

/// x in f32. Throws: ArgumentError for what is neither f32 nor bf16.
Value reduced_operand(const char* call, Value x) {
  SF_CHECK(is_f32_or_bf16(x.dtype()), ArgumentError, said_of(call, x), "; wanted f32 or bf16", hint("cast it"));
  return in_dtype(x, Dtype::f32);
}

/// The same reduction, with axes of size 1 in the place of those that go.
ReduceOptions with_dims_kept(const ReduceOptions& options) {
  return {.axes = options.axes, .keep_dims = true};
}

int num_unknown(const std::vector<std::int64_t>& dims) {
  return static_cast<int>(std::ranges::count(dims, kDynamic));
}

/// The axes that are named, counted from the front, in their order. Throws: ShapeError for one outside of the rank or
/// named twice.
std::vector<int> axes_of(const char* call, Value x, const std::vector<int>& axes) {
  std::vector<int> positive;
  for (const int axis : axes) {
    const int found = normalized_axis(axis, x.shape().rank(), said_of(call, x));
    SF_CHECK(std::ranges::find(positive, found) == positive.end(), ShapeError, said_of(call, x), "; axis ", axis,
             " is named twice");
    positive.push_back(found);
  }
  std::ranges::sort(positive);
  return positive;
}

/// The product along one axis of known size, which stays. What is odd each time comes in at the end.
Value product_along(Value x, int axis) {
  std::vector<Value> odd_ones;
  for (std::int64_t count = x.shape()[axis]; count > 1; count /= 2) {
    const std::int64_t half = count / 2;
    std::vector<std::int64_t> sizes = {half, half};
    if (count % 2 == 1) sizes.push_back(1);
    const std::vector<Value> parts = split(x, std::move(sizes), axis);
    if (count % 2 == 1) odd_ones.push_back(parts[2]);
    x = parts[0] * parts[1];
  }
  for (const Value& one : odd_ones) x *= one;
  return x;
}

/// The largest or the smallest of booleans.
Value reduced_truth(const char* call, Value x, ReduceOptions options, Where where,
                    Value (*reduce)(Value, ReduceOptions, Where)) {
  return x.graph().build_at(where, [&] {
    const auto names = x.graph().scope(call);
    SF_CHECK(x.dtype() == Dtype::boolean, ArgumentError, said_of(call, x), "; wanted boolean",
             hint("compare it, or cast it: what is not 0 is true"));
    return cast(reduce(cast(x, Dtype::f32), std::move(options), {}), Dtype::boolean);
  });
}

Moments moments_of(const char* call, Value x, const ReduceOptions& options, Where where) {
  return x.graph().build_at(where, [&] {
    const auto names = x.graph().scope(call);
    const Value numbers = reduced_operand(call, x);
    const Value mean = reduce_mean(numbers, with_dims_kept(options));
    const Value variance = reduce_mean(square(numbers - mean), options);
    return Moments{in_dtype(options.keep_dims ? mean : reshape_like(mean, variance), x.dtype()),
                   in_dtype(variance, x.dtype())};
  });
}

/// x with axis i in `times[i]` copies: the whole axis again and again, or each entry of it. Axes of one copy stay.
Value in_copies(const char* call, Value x, const std::vector<std::int64_t>& times, bool of_entries) {
  const Shape& shape = x.shape();
  SF_CHECK(num_unknown(shape.dims()) <= 1, ShapeError, said_of(call, x),
           "; wanted one dimension at most that the feed decides");
  std::vector<std::int64_t> apart, repeated, joined;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const std::int64_t count = times[static_cast<std::size_t>(axis)], dim = shape[axis];
    SF_CHECK(count >= 1, ArgumentError, said_of(call, x), ", to be repeated ", count, " times along axis ", axis,
             "; wanted 1 or more");
    joined.push_back(dim == kDynamic ? kDynamic : checked_multiply(dim, count));
    if (count > 1 && !of_entries) {
      apart.push_back(1);
      repeated.push_back(count);
    }
    apart.push_back(dim);
    repeated.push_back(dim);
    if (count > 1 && of_entries) {
      apart.push_back(1);
      repeated.push_back(count);
    }
  }
  if (apart.size() == joined.size()) return x;
  return reshape(broadcast_to(reshape(x, Shape(std::move(apart))), Shape(std::move(repeated))),
                 Shape(std::move(joined)));
}

/// What range gives. Throws: ArgumentError where the dtype has not one of the numbers.
template <class Number>
HostTensor numbers_in_a_row(std::int64_t count, const RangeOptions& options) {
  HostTensor numbers(options.dtype, {count});
  std::int64_t number = options.first;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i > 0) number = checked_add(number, options.step, "range");
    const auto held = static_cast<Number>(number);
    // A float of 2^63, which it may have been rounded to, is no i64.
    const bool is_there = static_cast<double>(held) < 0x1p63 || !std::is_floating_point_v<Number>;
    SF_CHECK(is_there && static_cast<std::int64_t>(held) == number, ArgumentError, "range: ", number, " is no ",
             dtype_name(options.dtype), hint("take another dtype"));
    numbers.values<Number>()[static_cast<std::size_t>(i)] = held;
  }
  return numbers;
}

}  // namespace

void check_table_bytes(const std::string& label, std::int64_t numbers, std::int64_t bytes_each) {
  SF_CHECK(numbers <= kMostTableBytes / bytes_each, ArgumentError, label, ": a constant of ", numbers, " numbers of ",
           bytes_each, " bytes; wanted kMostTableBytes, ", kMostTableBytes, " bytes, at most",
           hint("feed it, or work on parts"));
}

// The largest element is taken out as a constant: the derivative of what is left is the softmax, that of the constant
// cancels. Where it is infinite nothing is taken out, since infinity - infinity is no number; and where every term is
// 0, ln 1 stands for ln 0, whose gradient would be infinity times 0.
Value logsumexp(Value x, ReduceOptions options, Where where) {
  return x.graph().build_at(where, [&] {
    Graph& graph = x.graph();
    const auto names = graph.scope("logsumexp");
    const Value numbers = reduced_operand("logsumexp", x);
    const Value none = constant(graph, 0.0F, "none");
    const Value largest = stop_gradient(reduce_max(numbers, with_dims_kept(options)));
    const Value taken_out = select(is_finite(largest), largest, none);
    const Value sum = reduce_sum(exp(numbers - taken_out), options);
    const Value is_none = equal(sum, none);
    const Value logarithm = log(select(is_none, constant(graph, 1.0F, "one"), sum));
    const Value impossible = constant(graph, -std::numeric_limits<float>::infinity(), "impossible");
    return in_dtype(select(is_none, impossible, logarithm + reshape_like(taken_out, sum)), x.dtype());
  });
}

Value reduce_prod(Value x, ReduceOptions options, Where where) {
  return x.graph().build_at(where, [&] {
    const auto names = x.graph().scope("reduce_prod");
    Value product = reduced_operand("reduce_prod", x);
    const std::vector<bool> reduced = reduced_axes(options, x.shape().rank(), said_of("reduce_prod", x));
    std::vector<int> axes;
    for (int axis = 0; axis < x.shape().rank(); ++axis) {
      if (!reduced[static_cast<std::size_t>(axis)]) continue;
      SF_CHECK(x.shape()[axis] >= 1, ShapeError, said_of("reduce_prod", x), "; wanted a known size along axis ", axis,
               ", 1 or more");
      product = product_along(product, axis);
      axes.push_back(axis);
    }
    if (!options.keep_dims && !axes.empty()) product = squeeze(product, std::move(axes));
    return in_dtype(product, x.dtype());
  });
}

Moments moments(Value x, ReduceOptions options, Where where) {
  return moments_of("moments", x, options, where);
}
Value reduce_variance(Value x, ReduceOptions options, Where where) {
  return moments_of("reduce_variance", x, options, where).variance;
}

Value reduce_any(Value x, ReduceOptions options, Where where) {
  return reduced_truth("reduce_any", x, std::move(options), where, reduce_max);
}
Value reduce_all(Value x, ReduceOptions options, Where where) {
  return reduced_truth("reduce_all", x, std::move(options), where, reduce_min);
}

// reshape works one unknown dimension out. Of several, the shape of a sum that is never computed is taken.
Value squeeze(Value x, std::vector<int> axes, Where where) {
  return x.graph().build_at(where, [&] {
    const std::vector<int> gone = axes_of("squeeze", x, axes);
    std::vector<std::int64_t> dims;
    for (int axis = 0; axis < x.shape().rank(); ++axis) {
      const bool is_gone = std::ranges::binary_search(gone, axis);
      SF_CHECK(!is_gone || x.shape()[axis] == 1, ShapeError, said_of("squeeze", x), "; wanted the size 1 along axis ",
               axis);
      if (!is_gone) dims.push_back(x.shape()[axis]);
    }
    if (gone.empty()) return x;
    if (num_unknown(dims) <= 1) return reshape(x, Shape(std::move(dims)));
    return reshape_like(x, reduce_sum(in_dtype(x, Dtype::f32), {.axes = gone}));
  });
}

Value expand_dims(Value x, int axis, Where where) {
  return x.graph().build_at(where, [&] {
    const int rank = x.shape().rank();
    const int place =
        normalized_axis(axis, rank + 1, text_of(said_of("expand_dims", x), ", the result of rank ", rank + 1));
    if (num_unknown(x.shape().dims()) > 1) return reshape_like(x, stack({x}, place));
    std::vector<std::int64_t> dims = x.shape().dims();
    dims.insert(dims.begin() + place, 1);
    return reshape(x, Shape(std::move(dims)));
  });
}

Value tile(Value x, std::vector<std::int64_t> multiples, Where where) {
  return x.graph().build_at(where, [&] {
    const auto names = x.graph().scope("tile");
    SF_CHECK(multiples.size() == static_cast<std::size_t>(x.shape().rank()), ArgumentError, said_of("tile", x),
             ", with ", multiples.size(), " multiples; wanted one an axis");
    return in_copies("tile", x, multiples, false);
  });
}

Value repeat(Value x, std::int64_t times, int axis, Where where) {
  return x.graph().build_at(where, [&] {
    const auto names = x.graph().scope("repeat");
    std::vector<std::int64_t> copies(static_cast<std::size_t>(x.shape().rank()), 1);
    copies[static_cast<std::size_t>(normalized_axis(axis, x.shape().rank(), said_of("repeat", x)))] = times;
    return in_copies("repeat", x, copies, true);
  });
}

// Opposite along every axis that rows are numbered by is the same row counted from the end.
Value flip(Value x, std::vector<int> axes, Where where) {
  return x.graph().build_at(where, [&] {
    const auto names = x.graph().scope("flip");
    const Shape& shape = x.shape();
    std::vector<int> order = axes_of("flip", x, axes);
    const auto num_flipped = static_cast<std::ptrdiff_t>(order.size());
    if (num_flipped == 0) return x;
    std::int64_t num_rows = 1;
    for (const int axis : order) {
      SF_CHECK(shape[axis] >= 1, ShapeError, said_of("flip", x), "; wanted a known size along axis ", axis,
               ", 1 or more");
      num_rows = checked_multiply(num_rows, shape[axis], "flip");
    }
    std::vector<std::int64_t> rows = {num_rows};
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (std::ranges::find(order.begin(), order.begin() + num_flipped, axis) != order.begin() + num_flipped) continue;
      order.push_back(axis);
      rows.push_back(shape[axis]);
    }
    SF_CHECK(num_flipped == 1 || num_unknown(rows) <= 1, ShapeError, said_of("flip", x),
             "; wanted one dimension at most that the feed decides", hint("flip one axis after the other"));
    check_table_bytes(said_of("flip", x), num_rows, sizeof(std::int64_t));
    const Value from_end = range(x.graph(), num_rows, {.first = num_rows - 1, .step = -1});
    const bool lies_so = std::ranges::is_sorted(order);
    const Value table = lies_so ? x : transpose(x, order);
    const Value flipped = num_flipped == 1
                              ? gather(table, from_end)
                              : reshape_like(gather(reshape(table, Shape(std::move(rows))), from_end), table);
    std::vector<int> back(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) back[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
    return lies_so ? flipped : transpose(flipped, std::move(back));
  });
}

Value range(Graph& graph, std::int64_t count, RangeOptions options, Where where) {
  return graph.build_at(where, [&] {
    SF_CHECK(count >= 0, ArgumentError, "range: count is ", count, "; wanted 0 or more");
    check_table_bytes("range", count, dtype_bytes(options.dtype));
    switch (options.dtype) {
      case Dtype::i32:
        return constant(graph, numbers_in_a_row<std::int32_t>(count, options), "range");
      case Dtype::i64:
        return constant(graph, numbers_in_a_row<std::int64_t>(count, options), "range");
      case Dtype::f32:
        return constant(graph, numbers_in_a_row<float>(count, options), "range");
      default:
        throw ArgumentError(text_of("range: the dtype is ", dtype_name(options.dtype), "; wanted i32, i64 or f32"));
    }
  });
}

Value linspace(Graph& graph, float first, float last, std::int64_t count, Where where) {
  return graph.build_at(where, [&] {
    SF_CHECK(count >= 1, ArgumentError, "linspace: count is ", count, "; wanted 1 or more");
    check_table_bytes("linspace", count, sizeof(float));
    SF_CHECK(std::isfinite(first) && std::isfinite(last), ArgumentError, "linspace: from ", first, " to ", last,
             "; wanted finite numbers");
    HostTensor numbers(Dtype::f32, {count});
    const auto values = numbers.values<float>();
    for (std::int64_t i = 0; i < count; ++i) {
      // Not first + i step: this is `last` at the end, and 0 in the middle of -1 and 1.
      const auto behind = static_cast<double>(i), before = static_cast<double>(count - 1 - i);
      const double sum = count == 1 ? first : (first * before + last * behind) / (before + behind);
      values[static_cast<std::size_t>(i)] = static_cast<float>(sum);
    }
    return constant(graph, std::move(numbers), "linspace");
  });
}

Value sequence_mask(Value lengths, std::int64_t max_length, Where where) {
  return lengths.graph().build_at(where, [&] {
    const auto names = lengths.graph().scope("sequence_mask");
    SF_CHECK(lengths.dtype() == Dtype::i32 || lengths.dtype() == Dtype::i64, ArgumentError,
             said_of("sequence_mask", lengths), "; wanted i32 or i64", hint("cast it"));
    SF_CHECK(max_length >= 1, ArgumentError, "sequence_mask: max_length is ", max_length, "; wanted 1 or more");
    check_table_bytes("sequence_mask", max_length, dtype_bytes(lengths.dtype()));
    const Value places = range(lengths.graph(), max_length, {.dtype = lengths.dtype()});
    return less(places, expand_dims(lengths, -1));
  });
}

}  // namespace sectionflow

#include "graph/contraction.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/checked_arithmetic.h"
#include "base/error.h"
#include "graph/functions.h"
#include "graph/nodes/layout.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/layout.h"
#include "graph/ops/matmul.h"
#include "graph/ops/reduce.h"

namespace sectionflow {
namespace {

using Indices = std::vector<Index>;

bool has(const Indices& indices, Index index) {
  return std::ranges::find(indices, index) != indices.end();
}
/// Those of `indices` that `others` has, or has not, in their order.
Indices among(const Indices& indices, const Indices& others, bool wanted = true) {
  Indices found;
  std::ranges::copy_if(indices, std::back_inserter(found), [&](Index index) { return has(others, index) == wanted; });
  return found;
}
Indices joined(const Indices& a, const Indices& b, const Indices& c = {}) {
  Indices all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

// ---- Axes joined to one, parted again, and added.

int axis_of(const Factor& factor, Index index) {
  return static_cast<int>(std::ranges::find(factor.indices, index) - factor.indices.begin());
}
std::int64_t size_along(const Factor& factor, Index index) {
  return factor.value.shape()[axis_of(factor, index)];
}

/// Axes that are one, or will be; none are one of size 1.
using Groups = std::vector<Indices>;

void add_each(Groups& groups, const Indices& indices) {
  for (const Index index : indices) groups.push_back({index});
}

/// Whether a reshape to these sizes is one that a feed with unknown sizes can be given; axes of size 1 are added and
/// left out whatever is unknown.
bool can_reshape(const Groups& groups, const std::vector<std::int64_t>& dims) {
  const bool joins = std::ranges::any_of(groups, [](const Indices& group) { return group.size() > 1; });
  return !joins || std::ranges::count(dims, kDynamic) <= 1;
}

std::vector<std::int64_t> grouped_dims(const Factor& factor, const Groups& groups) {
  std::vector<std::int64_t> dims;
  for (const Indices& group : groups) {
    std::int64_t size = 1;
    for (const Index index : group) {
      const std::int64_t along = size_along(factor, index);
      size = along == kDynamic || size == kDynamic ? kDynamic : checked_multiply(size, along);
    }
    dims.push_back(size);
  }
  return dims;
}

/// The factor, whose axes are in this order, with an axis a group.
Value grouped(const Factor& factor, const Groups& groups) {
  std::vector<std::int64_t> dims = grouped_dims(factor, groups);
  if (groups.size() == factor.indices.size() && std::ranges::none_of(groups, &Indices::empty)) return factor.value;
  if (std::ranges::count(dims, kDynamic) <= 1) return reshape(factor.value, Shape(std::move(dims)));
  Value x = factor.value;
  for (std::size_t axis = 0; axis < groups.size(); ++axis) {
    if (groups[axis].empty()) x = expand_dims(x, static_cast<int>(axis));
  }
  return x;
}

/// The opposite: `x` has an axis a group, the result one an index, of these sizes.
Factor parted(Value x, const Groups& groups, std::vector<std::int64_t> dims) {
  Indices all;
  std::vector<int> ones;
  for (std::size_t axis = 0; axis < groups.size(); ++axis) {
    if (groups[axis].empty()) ones.push_back(static_cast<int>(axis));
    all = joined(all, groups[axis]);
  }
  if (ones.empty() && all.size() == groups.size()) return {x, all};
  if (std::ranges::count(dims, kDynamic) <= 1) return {reshape(x, Shape(std::move(dims))), all};
  return {squeeze(x, ones), all};
}

// ---- Products with a sum.

/// How a factor becomes matrices: [batch..., first, second].
struct Matrices {
  Factor factor;
  Indices order;  ///< of its axes, before they are grouped
  Groups groups;
  bool is_transposed = false;  ///< they are [batch..., second, first], and matmul reads them so

  bool is_moved() const { return factor.indices != order; }
};

/// `keeps_first`: where its axes need no transpose, those of `first` stay as many as they are.
Matrices as_matrices(const Factor& factor, const Indices& batch, const Indices& first, const Indices& second,
                     bool keeps_first) {
  const Indices order = joined(batch, first, second), transposed = joined(batch, second, first);
  // Several unknown sizes cannot be parted again.
  const bool may_join = !keeps_first || std::ranges::count(factor.value.shape().dims(), kDynamic) <= 1;
  Matrices made{.factor = factor, .order = order, .groups = {}};
  made.is_transposed = factor.indices != order && factor.indices == transposed && may_join;
  if (made.is_transposed) made.order = transposed;
  add_each(made.groups, batch);
  if (keeps_first && !made.is_transposed) {
    add_each(made.groups, first);
  } else {
    made.groups.push_back(made.is_transposed ? second : first);
  }
  made.groups.push_back(made.is_transposed ? first : second);
  return made;
}

/// A product as a matmul: [batch..., rows, inner] by [batch..., inner, columns].
struct Arrangement {
  Matrices left, right;
  Indices order;                   ///< of the axes of the result
  Groups groups;                   ///< of these, as matmul gives them
  std::vector<std::int64_t> dims;  ///< of the result
  double moved = 0;                ///< elements that transposes move

  bool is_possible() const {
    return can_reshape(left.groups, grouped_dims(left.factor, left.groups)) &&
           can_reshape(right.groups, grouped_dims(right.factor, right.groups)) && can_reshape(groups, dims);
  }
};

Arrangement arranged(const ContractionContext& context, const Factor& left, const Factor& right, const Indices& batch,
                     const Indices& rows, const Indices& inner, const Indices& columns) {
  // Rows behind no batch: one matrix serves all of them.
  const bool keeps_rows = batch.empty() && rows.size() > 1;
  Arrangement made{.left = as_matrices(left, batch, rows, inner, keeps_rows),
                   .right = as_matrices(right, batch, inner, columns, false),
                   .order = joined(batch, rows, columns),
                   .groups = {},
                   .dims = {}};
  add_each(made.groups, batch);
  if (keeps_rows && !made.left.is_transposed) {
    add_each(made.groups, rows);
  } else {
    made.groups.push_back(rows);
  }
  made.groups.push_back(columns);
  for (const Index index : made.order) {
    const std::int64_t of_left = has(left.indices, index) ? size_along(left, index) : kDynamic;
    made.dims.push_back(of_left == kDynamic && has(right.indices, index) ? size_along(right, index) : of_left);
  }
  for (const Matrices* side : {&made.left, &made.right}) {
    if (side->is_moved()) made.moved += estimated_elements(context, side->order);
  }
  return made;
}

/// The ways to order `indices` that are worth a look: as they are, and as others have them.
std::vector<Indices> orders_of(const Indices& indices, const std::vector<Indices>& others) {
  std::vector<Indices> orders = {indices};
  for (const Indices& other : others) {
    const Indices order = among(other, indices);
    if (order.size() == indices.size() && std::ranges::find(orders, order) == orders.end()) orders.push_back(order);
  }
  return orders;
}

/// The possible arrangement that moves the fewest elements, the first of several; empty where none is possible.
std::optional<Arrangement> best_arrangement(const ContractionContext& context, const Factor& a, const Factor& b,
                                            const Indices& kept, bool is_last) {
  const Indices both = among(a.indices, b.indices);
  std::optional<Arrangement> best;
  const auto look_at = [&](const Factor& left, const Factor& right, const Indices& batch, const Indices& inner) {
    for (const Indices& rows : orders_of(among(left.indices, both, false), {kept})) {
      for (const Indices& columns : orders_of(among(right.indices, both, false), {kept})) {
        Arrangement made = arranged(context, left, right, batch, rows, inner, columns);
        if (is_last && made.order != kept) made.moved += estimated_elements(context, kept);
        if (made.is_possible() && (!best || made.moved < best->moved)) best = std::move(made);
      }
    }
  };
  for (const Indices& batch : orders_of(among(both, kept), {b.indices, kept})) {
    for (const Indices& inner : orders_of(among(both, kept, false), {b.indices})) {
      look_at(a, b, batch, inner);
      look_at(b, a, batch, inner);
    }
  }
  return best;
}

/// "'b', 't'", of those whose size no operand knows.
std::string unknown_text(const ContractionContext& context, const Indices& indices) {
  std::string text;
  for (const Index index : indices) {
    if (context.sizes.at(index) == kDynamic) text += (text.empty() ? "" : ", ") + index_text(index);
  }
  return text;
}

Factor product_with_sum(const ContractionContext& context, const Factor& a, const Factor& b, const Indices& kept,
                        bool is_last) {
  const std::optional<Arrangement> best = best_arrangement(context, a, b, kept, is_last);
  SF_CHECK(best.has_value(), ShapeError, context.label, ": '", a.value.name(), "' times '", b.value.name(),
           "' joins and parts axes of which several are of unknown size: ",
           unknown_text(context, joined(a.indices, among(b.indices, a.indices, false))), "; wanted one such at most",
           hint("give placeholders the sizes that are known"));
  const auto& [left, right, order, groups, dims, moved] = *best;
  const Value x = grouped(in_order(left.factor, left.order), left.groups);
  const Value y = grouped(in_order(right.factor, right.order), right.groups);
  return parted(matmul(x, y, {.transpose_a = left.is_transposed, .transpose_b = right.is_transposed}), groups, dims);
}

// ---- Products of elements.

/// The factor with its axes in their order among `order`, and axes of size 1 for the others behind its first.
Value spread(const Factor& factor, const Indices& order) {
  std::vector<Indices> groups;
  for (const Index index : order) {
    if (has(factor.indices, index)) {
      groups.push_back({index});
    } else if (!groups.empty()) {
      groups.emplace_back();
    }
  }
  return grouped(in_order(factor, among(order, factor.indices)), groups);
}

Factor product_of_elements(const ContractionContext& context, const Factor& a, const Factor& b, const Indices& kept,
                           bool is_last) {
  const auto moved = [&](const Indices& order) {
    const auto by = [&](const Indices& indices, const Indices& wanted) {
      return indices == wanted ? 0 : estimated_elements(context, indices);
    };
    return by(a.indices, among(order, a.indices)) + by(b.indices, among(order, b.indices)) +
           (is_last ? by(order, kept) : 0);
  };
  std::vector<Indices> orders = {joined(a.indices, among(b.indices, a.indices, false)),
                                 joined(b.indices, among(a.indices, b.indices, false))};
  if (is_last) orders.insert(orders.begin(), kept);
  const Indices order = *std::ranges::min_element(orders, {}, moved);
  return {spread(a, order) * spread(b, order), order};
}

/// a, each of whose letters has the size that it has in b: no operand knows those that are still unknown. A joined
/// axis, or one of a product of elements, would let other sizes pass.
Factor with_sizes_of(const ContractionContext& context, Factor a, const Factor& b) {
  for (const Index index : among(a.indices, b.indices)) {
    if (index >= kEllipsisIndex || size_along(a, index) != kDynamic) continue;
    a.value = held_to_size(context, index, a.value, axis_of(a, index), b.value, axis_of(b, index));
  }
  return a;
}

}  // namespace

Value held_to_size(const ContractionContext& context, Index index, Value x, int axis, Value other, int other_axis) {
  if (x == other && axis == other_axis) return x;
  return same_size(
      x, other,
      {axis, other_axis,
       text_of(context.label, ": index ", index_text(index), " of '", x.name(), "' and '", other.name(), "'")});
}

std::string index_text(Index index) {
  if (index < kEllipsisIndex) return text_of("'", static_cast<char>(index), "'");
  return text_of("axis ", kEllipsisIndex - 1 - index, " of '...'");
}

double estimated_elements(const ContractionContext& context, const std::vector<Index>& indices) {
  constexpr double kGuess = 64;
  double elements = 1;
  for (const Index index : indices) {
    const std::int64_t size = context.sizes.at(index);
    elements *= size == kDynamic ? kGuess : static_cast<double>(size);
  }
  return elements;
}

Factor in_order(const Factor& factor, const std::vector<Index>& order) {
  if (factor.indices == order) return factor;
  std::vector<int> permutation;
  for (const Index index : order) {
    permutation.push_back(axis_of(factor, index));
  }
  return {transpose(factor.value, std::move(permutation)), order};
}

Factor summed_to(const Factor& factor, const std::vector<Index>& kept) {
  ReduceOptions over;
  for (std::size_t axis = 0; axis < factor.indices.size(); ++axis) {
    if (!has(kept, factor.indices[axis])) over.axes.push_back(static_cast<int>(axis));
  }
  if (over.axes.empty()) return factor;
  return {reduce_sum(factor.value, std::move(over)), among(factor.indices, kept)};
}

Factor contract(const ContractionContext& context, const Factor& a, const Factor& b, const std::vector<Index>& kept,
                bool is_last) {
  SF_CHECK(std::ssize(kept) <= Shape::kMaxRank, ShapeError, context.label, ": '", a.value.name(), "' times '",
           b.value.name(), "' has ", kept.size(), " axes; wanted Shape::kMaxRank, ", Shape::kMaxRank, ", at most");
  const bool sums = !among(among(a.indices, b.indices), kept, false).empty();
  const Factor held = with_sizes_of(context, a, b);
  const Factor product =
      sums ? product_with_sum(context, held, b, kept, is_last) : product_of_elements(context, held, b, kept, is_last);
  return is_last ? in_order(product, kept) : product;
}

}  // namespace sectionflow

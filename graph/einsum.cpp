#include "graph/einsum.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "graph/contraction.h"
#include "graph/einsum_text.h"
#include "graph/functions.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/layout.h"
#include "graph/ops/reduce.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

/// "operand 1 'w'"
std::string operand_name(const std::vector<Value>& operands, std::size_t number) {
  return text_of("operand ", number, " '", operands[number].name(), "'");
}
/// "operand 1 'w' is f32[3,4]"
std::string operand_text(const std::vector<Value>& operands, std::size_t number) {
  return text_of(operand_name(operands, number), " is ", operands[number].type().text());
}

/// The index of each axis: the letters, and between them those of "...", which counts `ellipsis_rank` axes.
std::vector<Index> spelled_out(const IndexTerm& term, int ellipsis_rank) {
  std::vector<Index> indices(term.letters.begin(), term.letters.end());
  if (!term.has_ellipsis()) return indices;
  std::vector<Index> of_ellipsis;
  for (int from_end = ellipsis_rank - 1; from_end >= 0; --from_end) of_ellipsis.push_back(kEllipsisIndex + from_end);
  indices.insert(indices.begin() + term.ellipsis, of_ellipsis.begin(), of_ellipsis.end());
  return indices;
}

void check_operands(const std::string& label, const EinsumText& text, const std::vector<Value>& operands) {
  SF_CHECK(text.operands.size() == operands.size(), ArgumentError, label, ": ", operands.size(),
           " operands for a text of ", text.operands.size(), "; wanted as many, with ',' between their indices");
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const IndexTerm& term = text.operands[i];
    const int letters = static_cast<int>(term.letters.size()), rank = operands[i].shape().rank();
    SF_CHECK(is_f32_or_bf16(operands[i].dtype()), ArgumentError, label, ": ", operand_text(operands, i),
             "; wanted f32 or bf16", hint("cast it"));
    SF_CHECK(operands[i].dtype() == operands[0].dtype(), ArgumentError, label, ": ", operand_text(operands, 0), ", ",
             operand_text(operands, i), "; wanted one dtype",
             hint("cast(x, Dtype::", dtype_name(operands[0].dtype()), ")"));
    SF_CHECK(term.has_ellipsis() ? rank >= letters : rank == letters, ShapeError, label, ": ",
             operand_text(operands, i), "; wanted rank ", letters, term.has_ellipsis() ? " or more" : "",
             ", an axis an index of ", quoted_einsum(term.letters));
  }
}

/// The sizes of indices, and which operand said so first.
struct SizesByIndex {
  IndexSizes sizes;
  std::map<Index, std::size_t> said_by;
};

/// Takes the sizes of one more operand. Throws: ShapeError where another has said otherwise.
void add_sizes(SizesByIndex& known, const std::string& label, const std::vector<Value>& operands, std::size_t number,
               const std::vector<Index>& indices) {
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    const Index index = indices[axis];
    const std::int64_t size = operands[number].shape()[static_cast<int>(axis)];
    const auto [entry, is_new] = known.sizes.emplace(index, size);
    std::int64_t& so_far = entry->second;
    // Of "..." a 1 is repeated to whatever the others have, be it unknown.
    const bool is_repeated = index >= kEllipsisIndex && (size == 1 || so_far == 1);
    const bool says_more = is_repeated ? so_far == 1 && size != 1 : so_far == kDynamic;
    SF_CHECK(is_repeated || size == so_far || size == kDynamic || so_far == kDynamic, ShapeError, label, ": index ",
             index_text(index), " is ", so_far, " in ", operand_name(operands, known.said_by.at(index)), ", ",
             operands[known.said_by.at(index)].type().text(), ", and ", size, " in ", operand_name(operands, number),
             ", ", operands[number].type().text(), "; wanted one size");
    if (is_new || says_more) {
      so_far = size;
      known.said_by[index] = number;
    }
  }
}

/// The operand with the sizes that others know and it does not: it is held to these when the feed decides.
Value with_known_sizes(const ContractionContext& context, const SizesByIndex& known, const std::vector<Value>& operands,
                       const std::vector<std::vector<Index>>& indices, std::size_t number) {
  Value x = operands[number];
  for (int axis = 0; axis < x.shape().rank(); ++axis) {
    const Index index = indices[number][static_cast<std::size_t>(axis)];
    if (x.shape()[axis] != kDynamic || known.sizes.at(index) == kDynamic) continue;
    const std::size_t by = known.said_by.at(index);
    const auto of_by = std::ranges::find(indices[by], index) - indices[by].begin();
    x = held_to_size(context, index, x, axis, operands[by], static_cast<int>(of_by));
  }
  return x;
}

/// The elements whose places along two axes are the same, without the second of these. What lies beside the diagonal
/// is replaced, not multiplied by 0: it may be NaN.
Value diagonal_of(const std::string& label, Value x, int first, int second, Index index) {
  Graph& graph = x.graph();
  const std::int64_t size = x.shape()[first];
  SF_CHECK(size >= 1 && size == x.shape()[second], ShapeError, label, ": '", x.name(), "' is ", x.type().text(),
           " and has index ", index_text(index), " twice; wanted one known size along both axes, 1 or more");
  std::vector<std::int64_t> dims(static_cast<std::size_t>(x.shape().rank() - first), 1);
  dims.front() = size;
  const Value places = range(graph, size);
  const Value row = reshape(places, Shape(dims));
  std::swap(dims.front(), dims[static_cast<std::size_t>(second - first)]);
  const Value is_on_it = equal(row, reshape(places, Shape(std::move(dims))));
  return reduce_sum(select(is_on_it, x, fill(graph, {}, 0, x.dtype(), "beside")), {.axes = {second}});
}

/// The operand as a factor: each index once, and no axis of "..." that is repeated.
Factor factor_of(const std::string& label, const IndexSizes& sizes, Value x, std::vector<Index> indices) {
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    for (std::size_t again = indices.size() - 1; again > axis; --again) {
      if (indices[again] != indices[axis]) continue;
      x = diagonal_of(label, x, static_cast<int>(axis), static_cast<int>(again), indices[axis]);
      indices.erase(indices.begin() + static_cast<std::ptrdiff_t>(again));
    }
  }
  std::vector<int> repeated;
  std::vector<Index> others;
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    const bool is_repeated =
        indices[axis] >= kEllipsisIndex && x.shape()[static_cast<int>(axis)] == 1 && sizes.at(indices[axis]) != 1;
    is_repeated ? repeated.push_back(static_cast<int>(axis)) : others.push_back(indices[axis]);
  }
  return {squeeze(x, std::move(repeated)), std::move(others)};
}

/// The indices that the result has, then those of factors but for one.
std::vector<Index> wanted_beside(const std::vector<Index>& result, const std::vector<Factor>& factors,
                                 std::size_t left_out) {
  std::vector<Index> wanted = result;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    if (i == left_out) continue;
    wanted.insert(wanted.end(), factors[i].indices.begin(), factors[i].indices.end());
  }
  return wanted;
}

/// The indices of two factors.
std::vector<Index> indices_of(const Factor& a, const Factor& b) {
  std::vector<Index> indices = a.indices;
  std::ranges::copy_if(b.indices, std::back_inserter(indices),
                       [&](Index index) { return std::ranges::find(a.indices, index) == a.indices.end(); });
  return indices;
}

/// The two factors that are multiplied next.
struct Pair {
  std::size_t first = 0, second = 1;
  std::vector<Index> kept;  ///< the indices of their product
};
Pair next_pair(const ContractionContext& context, const std::vector<Factor>& factors,
               const std::vector<Index>& result) {
  std::map<Index, int> readers;  // how many factors have an index, and the result
  for (const Factor& factor : factors) {
    for (const Index index : factor.indices) ++readers[index];
  }
  for (const Index index : result) ++readers[index];
  Pair best;
  constexpr double kMost = std::numeric_limits<double>::infinity();
  std::pair<double, double> least = {kMost, kMost};
  for (std::size_t i = 0; i < factors.size(); ++i) {
    for (std::size_t k = i + 1; k < factors.size(); ++k) {
      std::vector<Index> kept = indices_of(factors[i], factors[k]);
      const double multiplications = estimated_elements(context, kept);
      const auto has = [&](std::size_t which, Index index) {
        return std::ranges::find(factors[which].indices, index) != factors[which].indices.end();
      };
      std::erase_if(kept, [&](Index index) {
        return readers.at(index) == static_cast<int>(has(i, index)) + static_cast<int>(has(k, index));
      });
      const std::pair cost(multiplications, estimated_elements(context, kept));
      if (k > 1 && cost >= least) continue;
      least = cost;
      best = {i, k, std::move(kept)};
    }
  }
  return best;
}

Value contracted(const ContractionContext& context, std::vector<Factor> factors, const std::vector<Index>& result) {
  std::vector<Factor> summed;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    summed.push_back(summed_to(factors[i], wanted_beside(result, factors, i)));
  }
  while (summed.size() > 1) {
    const Pair pair = next_pair(context, summed, result);
    const bool is_last = summed.size() == 2;
    summed[pair.first] =
        contract(context, summed[pair.first], summed[pair.second], is_last ? result : pair.kept, is_last);
    summed.erase(summed.begin() + static_cast<std::ptrdiff_t>(pair.second));
  }
  return in_order(summed.front(), result).value;
}

Value einsum_of(const char* call, std::string_view text, const std::vector<Value>& operands) {
  const std::string label = text_of(call, " ", quoted_einsum(text));
  const EinsumText read = read_einsum(label, text);
  check_operands(label, read, operands);
  SizesByIndex known;
  int ellipsis_rank = 0;
  std::vector<std::vector<Index>> indices;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const IndexTerm& term = read.operands[i];
    const int more = operands[i].shape().rank() - static_cast<int>(term.letters.size());
    ellipsis_rank = std::max(ellipsis_rank, more);
    indices.push_back(spelled_out(term, more));
    add_sizes(known, label, operands, i, indices.back());
  }
  const ContractionContext context{label, known.sizes};
  std::vector<Factor> factors;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    factors.push_back(
        factor_of(label, known.sizes, with_known_sizes(context, known, operands, indices, i), indices[i]));
  }
  return contracted(context, std::move(factors), spelled_out(read.result, ellipsis_rank));
}

}  // namespace

Value einsum(std::string_view text, const std::vector<Value>& operands, Where where) {
  SF_CHECK(!operands.empty(), ArgumentError, "einsum ", quoted_einsum(text), ": no operands; wanted one at least");
  Graph& graph = operands.front().graph();
  return graph.build_at(where, operands, [&] {
    const auto names = graph.scope("einsum");
    return einsum_of("einsum", text, operands);
  });
}

Value broadcast_matmul(Value a, Value b, MatmulOptions options, Where where) {
  return a.graph().build_at(where, {a, b}, [&] {
    const auto names = a.graph().scope("broadcast_matmul");
    for (const Value& side : {a, b}) {
      SF_CHECK(side.shape().rank() >= 1, ShapeError, "broadcast_matmul: '", side.name(), "' is ", side.type().text(),
               "; wanted [..., M, K] by [..., K, N], or vectors [K]", hint("a scalar goes by mul"));
    }
    const bool is_row = a.shape().rank() == 1, is_column = b.shape().rank() == 1;
    const std::string left = is_row ? "k" : (options.transpose_a ? "...km" : "...mk");
    const std::string right = is_column ? "k" : (options.transpose_b ? "...nk" : "...kn");
    const std::string result = text_of(is_row && is_column ? "" : "...", is_row ? "" : "m", is_column ? "" : "n");
    return einsum_of("broadcast_matmul", left + "," + right + "->" + result, {a, b});
  });
}

}  // namespace sectionflow

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

// What an einsum is lowered to: products of two factors, whose axes go by indices.

/// The number of an index: a letter's code, or, of axis -1, -2, ... of "...", what follows kEllipsisIndex.
using Index = int;
inline constexpr Index kEllipsisIndex = 256;

/// "'i'", or "axis -2 of '...'".
std::string index_text(Index index);

/// The size of each index; kDynamic where no operand knows it.
using IndexSizes = std::map<Index, std::int64_t>;

/// What contractions of one einsum share.
struct ContractionContext {
  std::string label;  ///< begins messages
  IndexSizes sizes;
};

/// A value and the index of each of its axes, no two alike.
struct Factor {
  Value value;
  std::vector<Index> indices;
};

/// x, whose axis of `index` has the size of that of `other`, known or held to it when the feed decides.
Value held_to_size(const ContractionContext& context, Index index, Value x, int axis, Value other, int other_axis);

/// How many elements a tensor of these indices has; for choices: sizes that are unknown are guessed.
double estimated_elements(const ContractionContext& context, const std::vector<Index>& indices);

/// The factor with its axes in another order; itself where they are in it.
Factor in_order(const Factor& factor, const std::vector<Index>& order);

/// The sum over all indices that `kept` has not.
Factor summed_to(const Factor& factor, const std::vector<Index>& kept);

/// a b, summed over the indices that both have and `kept` has not; `kept` has all others. One matmul, or one product of
/// elements where nothing is summed. Letters of unknown size are held to each other; of "..." matmul and mul decide
/// what fits. With `is_last` the axes come out in the order of `kept`. Of several arrangements
/// it takes the one that moves the fewest elements. Throws: ShapeError where axes of unknown size would have to be
/// joined and parted in a way that no reshape can work out.
Factor contract(const ContractionContext& context, const Factor& a, const Factor& b, const std::vector<Index>& kept,
                bool is_last);

}  // namespace sectionflow

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/node_parts.h"
#include "op_case/node_call.h"

namespace sectionflow::op_cases {

/// What the op says of the call (OpDef::parts). Throws: InternalError for parts that the types cannot have.
std::optional<NodeParts> node_parts(const NodeCall& call);

/// The fewest equal parts beyond one, and the most up to 64; none where the rows allow none.
std::vector<std::int64_t> part_counts(const NodeParts& parts);

/// The call of one of `count` equal parts.
NodeCall part_call(const NodeCall& whole, const NodeParts& parts, std::int64_t count);

/// Where part `index` of `count` begins in the bytes of an operand.
std::size_t part_offset(const TensorType& whole, PartUse use, std::int64_t index, std::int64_t count);

}  // namespace sectionflow::op_cases

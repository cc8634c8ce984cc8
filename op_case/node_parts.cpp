#include "op_case/node_parts.h"

#include <algorithm>
#include <utility>

namespace sectionflow::op_cases {
namespace {

/// The rows that the operands taken by rows have in common; -1 where there are none.
std::int64_t common_rows(const NodeCall& call, const std::vector<TensorType>& types, const std::vector<PartUse>& uses,
                         PartUse not_allowed, std::int64_t rows) {
  SF_CHECK(types.size() == uses.size(), InternalError, call.node.label(), ": OpDef::parts has ", uses.size(),
           " uses for ", types.size(), " operands");
  for (std::size_t i = 0; i < types.size(); ++i) {
    SF_CHECK(uses[i] != not_allowed, InternalError, call.node.label(), ": OpDef::parts: operand ", i, " of type ",
             types[i].text(), " has a use that is none for it");
    if (uses[i] != PartUse::rows) continue;
    const Shape& shape = types[i].shape;
    SF_CHECK(shape.rank() > 0 && (rows < 0 || shape[0] == rows), InternalError, call.node.label(),
             ": OpDef::parts takes ", types[i].text(), " by rows, beside others of ", rows);
    rows = shape[0];
  }
  return rows;
}

std::vector<TensorType> part_types(std::vector<TensorType> types, const std::vector<PartUse>& uses,
                                   std::int64_t count) {
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (uses[i] == PartUse::rows) types[i] = type_of_part(types[i], count);
  }
  return types;
}

}  // namespace

std::optional<NodeParts> node_parts(const NodeCall& call) {
  const OpDef& op = call.node.op();
  if (!op.parts) return std::nullopt;
  std::optional<RowParts> uses = op.parts({call.inputs, call.outputs, call.booleans, call.node.any_options()});
  if (!uses) return std::nullopt;
  SF_CHECK(op.recompute == Recompute::pure && op.updated_inputs.empty() && uses->block > 0, InternalError,
           call.node.label(), ": OpDef::parts of blocks of ", uses->block,
           " rows; wanted one row at least, of an op that is neither seeded nor an update");
  const std::int64_t of_outputs = common_rows(call, call.outputs, uses->outputs, PartUse::whole, -1);
  const std::int64_t rows = common_rows(call, call.inputs, uses->inputs, PartUse::sum, of_outputs);
  SF_CHECK(rows >= 0, InternalError, call.node.label(), ": OpDef::parts takes nothing by rows");
  return NodeParts{std::move(*uses), rows};
}

std::vector<std::int64_t> part_counts(const NodeParts& parts) {
  constexpr std::int64_t kMost = 64;
  std::vector<std::int64_t> counts;
  for (std::int64_t count = 2; count <= std::min(kMost, parts.most()); ++count) {
    if (parts.may_be(count)) counts.push_back(count);
  }
  if (counts.size() > 2) counts = {counts.front(), counts.back()};
  return counts;
}

NodeCall part_call(const NodeCall& whole, const NodeParts& parts, std::int64_t count) {
  NodeCall part = whole;
  part.inputs = part_types(std::move(part.inputs), parts.uses.inputs, count);
  part.outputs = part_types(std::move(part.outputs), parts.uses.outputs, count);
  return part;
}

std::size_t part_offset(const TensorType& whole, PartUse use, std::int64_t index, std::int64_t count) {
  return use == PartUse::rows ? whole.bytes() / static_cast<std::size_t>(count) * static_cast<std::size_t>(index) : 0;
}

}  // namespace sectionflow::op_cases

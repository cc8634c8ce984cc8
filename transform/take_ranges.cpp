// Ranges that were found in training become those of the tensors, and nothing rounds to them any more.

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "transform/graph_copy.h"
#include "transform/transform.h"

namespace sectionflow {

Transform fold_constants_transform();

namespace {

/// The ends of what a fake_quantize rounds to, where these are the same for all channels and constant.
std::optional<ValueRange> ends_of(const Node& node) {
  const auto end = [&](std::size_t input) {
    const HostTensor* content = constant_content(node.inputs()[input]);
    return content != nullptr && content->num_elements() == 1 ? std::optional<float>(content->values<float>()[0])
                                                              : std::nullopt;
  };
  const std::optional<float> minimum = end(1), maximum = end(2);
  if (!minimum || !maximum) return std::nullopt;
  if (*minimum <= *maximum) return ValueRange{*minimum, *maximum};
  // A limit that training has brought below 0 counts by its magnitude.
  const float most = std::max(std::abs(*minimum), std::abs(*maximum));
  return ValueRange{*minimum >= 0 ? 0 : -most, most};
}

InferenceGraph taken(const TransformedGraph& given) {
  GraphCopy copy(given);
  std::map<Value, ValueRange> ranges;  // of the copy
  copy.copy_all([&](const Node& node, GraphCopy& made) {
    if (!is_op(node, "fake_quantize")) return false;
    const std::optional<ValueRange> range = ends_of(node);
    const Value rounded = given.graph.node(node.id()).output(), x = node.inputs()[0];
    const bool is_output = std::find(given.outputs.begin(), given.outputs.end(), rounded) != given.outputs.end();
    if (!range || is_output || node.branch() != x.node().branch() || !node.control_inputs().empty()) return false;
    const Value stands = made.mapped(x);
    made.map(rounded, stands);
    // Where training has met nothing but zeros there is no scale to take: examples have to tell.
    if (range->minimum == 0 && range->maximum == 0) return true;
    const auto known = ranges.find(stands);
    if (known == ranges.end()) {
      ranges.emplace(stands, *range);
    } else {
      known->second.minimum = std::min(known->second.minimum, range->minimum);
      known->second.maximum = std::max(known->second.maximum, range->maximum);
    }
    return true;
  });
  InferenceGraph result = copy.finish(given.outputs);
  for (const auto& [value, range] : ranges) result.ranges.set(value, range);
  return result;
}

}  // namespace

Transform take_ranges_transform() {
  return {.apply = [](const TransformedGraph& given, const TransformArguments&) {
    const InferenceGraph folded = fold_constants_transform().apply(given, {});
    return taken({*folded.graph, folded.outputs, folded.ranges});
  }};
}

}  // namespace sectionflow

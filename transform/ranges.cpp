#include "transform/ranges.h"

#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"

namespace sectionflow {

void ValueRanges::set(const std::string& tensor, ValueRange range) {
  SF_CHECK(std::isfinite(range.minimum) && std::isfinite(range.maximum) && range.minimum <= range.maximum,
           ArgumentError, "the range of '", tensor, "' is from ", range.minimum, " to ", range.maximum,
           "; wanted finite numbers, the smaller one first");
  ranges_[tensor] = range;
}

void ValueRanges::drop(std::string_view tensor) {
  const auto found = ranges_.find(tensor);
  if (found != ranges_.end()) ranges_.erase(found);
}

std::optional<ValueRange> ValueRanges::of(std::string_view tensor) const {
  const auto found = ranges_.find(tensor);
  return found != ranges_.end() ? std::optional<ValueRange>(found->second) : std::nullopt;
}

std::map<std::string, Value> values_of_ranges(const Graph& graph, const ValueRanges& ranges, std::string_view call) {
  std::map<std::string, Value> values;
  if (ranges.empty()) return values;
  std::vector<std::string> names;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    Node& node = graph.node(id);
    for (int i = 0; i < static_cast<int>(node.output_types().size()); ++i) {
      const Value value = node.output(i);
      names.push_back(value.name());
      if (ranges.of(value)) values.emplace(value.name(), value);
    }
  }
  for (const auto& [name, range] : ranges) {
    const auto found = values.find(name);
    if (found == values.end()) {
      const auto nearest = nearest_spelling(name, names);
      throw ArgumentError(text_of(call, ": the graph has no tensor '", name, "', of which a range is given",
                                  nearest ? text_of("; did you mean '", *nearest, "'?") : std::string()));
    }
    const Dtype dtype = found->second.dtype();
    SF_CHECK(dtype == Dtype::f32 || dtype == Dtype::bf16, ArgumentError, call, ": '", name, "' is ",
             found->second.type().text(), " and has a range; wanted a tensor of f32 or bf16");
  }
  return values;
}

}  // namespace sectionflow

#include "swap/lms_levels.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "graph/traversal.h"

namespace sectionflow {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

[[noreturn]] void refuse_entry(const std::string& entry) {
  throw ArgumentError(error_text_of("Lms: serialization has '", entry,
                                    "'; wanted a level as in \"3\", or a range with both ends as in \"3:5\", \":2\", "
                                    "\"-3:\" or \"0:9:2\""),
                      ErrorCode::lms_parameter);
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

int number_of(std::string_view text, const std::string& entry) {
  text = trimmed(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) refuse_entry(entry);
  return number;
}

struct Range {
  std::optional<int> first, last;
  int step = 1;
};

Range range_of(const std::string& entry) {
  if (entry.find(':') == std::string::npos) {
    const int level = number_of(entry, entry);
    return {level, level, 1};
  }
  std::vector<std::string_view> parts;
  for (std::string_view rest = entry;;) {
    const auto colon = rest.find(':');
    parts.push_back(trimmed(rest.substr(0, colon)));
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  if (parts.size() > 3) refuse_entry(entry);
  Range range;
  if (!parts[0].empty()) range.first = number_of(parts[0], entry);
  if (!parts[1].empty()) range.last = number_of(parts[1], entry);
  if (parts.size() == 3 && !parts[2].empty()) range.step = number_of(parts[2], entry);
  if (range.step == 0) refuse_entry(entry);
  return range;
}

void add_levels(const std::string& entry, int count, std::set<int>& chosen) {
  const Range range = range_of(entry);
  if (entry.find(':') == std::string::npos) {
    // A number is that level alone; -1 is no level.
    if (*range.first >= 0 && *range.first < count) chosen.insert(*range.first);
    return;
  }
  const bool up = range.step > 0;
  const auto from_end = [&](std::optional<int> bound, int otherwise) {
    const std::int64_t number = bound.value_or(otherwise);
    return number < 0 ? number + count : number;
  };
  const std::int64_t first = from_end(range.first, up ? 0 : count - 1);
  const std::int64_t last = from_end(range.last, up ? count - 1 : 0);
  const std::int64_t begin = up ? std::max<std::int64_t>(first, 0) : std::min<std::int64_t>(first, count - 1);
  const std::int64_t end = up ? std::min<std::int64_t>(last, count - 1) : std::max<std::int64_t>(last, 0);
  for (std::int64_t level = begin; up ? level <= end : level >= end; level += range.step) {
    chosen.insert(static_cast<int>(level));
  }
}

}  // namespace

LmsLevels lms_levels(const Graph& graph) {
  LmsLevels result;
  result.level = levels(DependencyGraph(graph));
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const auto level = static_cast<std::size_t>(result.of(id));
    if (result.nodes.size() <= level) result.nodes.resize(level + 1);
    result.nodes[level].push_back(id);
  }
  return result;
}

std::vector<std::size_t> level_bytes(const LmsGraph& graph, const LmsLevels& levels) {
  std::vector<std::size_t> sums;
  for (const NodeSet& nodes : levels.nodes) {
    std::size_t sum = 0;
    for (NodeId id : nodes) sum += graph.is_valid(id) && graph.is_gpu(id) ? graph.op_bytes(id) : 0;
    sums.push_back(sum);
  }
  return sums;
}

void check_serialization(const std::vector<std::string>& entries) {
  for (const std::string& entry : entries) range_of(entry);
}

int highest_initializer_level(const Graph& graph, const LmsLevels& levels) {
  int highest = 0;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    Node& node = graph.node(id);
    if (!node.op().is_variable() || constant_content(node.output()) != nullptr) continue;
    highest = std::max(highest, levels.of(initializer_of(node.output()).node().id()));
  }
  return highest;
}

std::vector<int> serialized_levels(const LmsOptions& options, const LmsGraph& graph, const LmsLevels& levels) {
  std::set<int> chosen;
  for (const std::string& entry : options.serialization) add_levels(entry, levels.count(), chosen);
  if (options.serialization_by_size != 0) {
    const std::vector<std::size_t> sizes = level_bytes(graph, levels);
    for (std::size_t level = 0; level < sizes.size(); ++level) {
      if (static_cast<double>(sizes[level]) / kGiB > options.serialization_by_size)
        chosen.insert(static_cast<int>(level));
    }
  }
  const int highest = highest_initializer_level(graph.graph(), levels);
  std::erase_if(chosen, [&](int level) { return level <= highest; });
  return {chosen.begin(), chosen.end()};
}

std::vector<OrderEdge> serialization_edges(const LmsGraph& graph, const LmsLevels& levels,
                                           const std::vector<int>& chosen) {
  std::vector<OrderEdge> edges;
  std::optional<NodeId> last;
  int level_of_last = -1;
  for (const int level : chosen) {
    if (level != level_of_last + 1) last.reset();
    std::optional<NodeId> previous = last;
    last.reset();
    level_of_last = level;
    for (NodeId id : levels.nodes[static_cast<std::size_t>(level)]) {
      const std::string& name = graph.graph().node(id).name();
      const bool is_free = name.find("/cond/") != std::string::npos || name.find("loss") != std::string::npos;
      if (is_free || graph.is_built_in(id) || graph.follows_update(id)) continue;
      if (previous) edges.emplace_back(*previous, id);
      previous = last = id;
    }
  }
  return edges;
}

}  // namespace sectionflow

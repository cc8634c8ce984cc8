#include "planning/instance.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <queue>
#include <unordered_map>

#include "base/error.h"
#include "base/whole_file.h"

namespace sectionflow::planning {
namespace {

using nlohmann::json;

constexpr std::size_t kMostFileBytes = std::size_t{64} << 20;
constexpr std::size_t kMostNodes = 200'000, kMostLinks = 2'000'000;
constexpr std::size_t kMostNameBytes = 1000;

/// Reads one file; every refusal begins with its path.
class InstanceReader {
 public:
  explicit InstanceReader(const std::filesystem::path& path) : where_(text_of("read_instance: '", path.string(), "'")) {
    const std::string text = read_whole_file(path, kMostFileBytes, "read_instance");
    try {
      graph_ = json::parse(text);
    } catch (const json::exception& error) {
      refuse("is no JSON: ", error.what(), hint("numbers that are not finite are none of JSON's"));
    }
  }

  Instance read() {
    if (!graph_.is_object()) refuse("is no graph: wanted an object with 'nodes' and 'links'");
    if (const json* directed = member(graph_, "directed"); directed != nullptr && *directed == false) {
      refuse("is a graph without directions", hint("links have to run from an operation to the readers of its output"));
    }
    read_nodes();
    read_links();
    return in_order(execution_order());
  }

 private:
  struct Node {
    std::string id, name;
    double seconds = 0;
    std::int64_t bytes = 0;
    bool backward = false;
    std::vector<int> inputs, readers;
  };

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw DataError(error_text_of(where_, " ", parts...));
  }
  /// "node 3 'conv'"
  static std::string text_of_node(const Node& node) { return text_of("node ", node.id, " '", node.name, "'"); }
  static const json* member(const json& object, const char* name) {
    const auto found = object.find(name);
    return found == object.end() ? nullptr : &*found;
  }
  const json& array(const json& object, const char* name, const char* other, std::size_t most) const {
    const json* found = member(object, name);
    if (found == nullptr && other != nullptr) found = member(object, other);
    if (found == nullptr || !found->is_array()) refuse("is no graph: wanted a list '", name, "'");
    if (found->size() > most) refuse("has ", found->size(), " ", name, ", wanted at most ", most);
    return *found;
  }
  /// What an id is found by: a number or a text, as JSON writes it.
  static bool is_id(const json& id) {
    return id.is_number_integer() || (id.is_string() && id.get_ref<const std::string&>().size() <= kMostNameBytes);
  }

  /// A whole number of 64 bits, with a sign or without, so that pairs are in the order of numbers.
  static std::pair<std::int64_t, std::uint64_t> number_of(const json& id) {
    if (id.is_number_unsigned()) return {0, id.get<std::uint64_t>()};
    const auto number = id.get<std::int64_t>();
    return number < 0 ? std::pair{number, std::uint64_t{0}}
                      : std::pair{std::int64_t{0}, static_cast<std::uint64_t>(number)};
  }

  void read_nodes() {
    const json& nodes = array(graph_, "nodes", nullptr, kMostNodes);
    if (nodes.empty()) refuse("'nodes' is empty: there is nothing to plan");
    std::int64_t sum = 0;
    double seconds = 0;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const json& entry = nodes[i];
      if (!entry.is_object()) refuse("node at place ", i, " is no object");
      Node node;
      const json* id = member(entry, "id");
      const json* name = member(entry, "name");
      if (id == nullptr) id = name;
      if (id == nullptr || !is_id(*id)) refuse("node at place ", i, " has no id, wanted a whole number or a text");
      node.id = id->dump();
      ids_are_numbers_ = ids_are_numbers_ && id->is_number_integer();
      // Lists and objects may be nested too deeply to be written down.
      const bool has_name = name != nullptr && name->is_primitive();
      node.name = !has_name ? node.id : name->is_string() ? name->get<std::string>() : name->dump();
      if (node.name.size() > kMostNameBytes)
        refuse("node ", node.id, ": its name is longer than ", kMostNameBytes, " bytes");
      const bool first_kind = entry.contains("cost_cpu") || entry.contains("cost_ram");
      node.seconds = seconds_of(entry, first_kind ? "cost_cpu" : "duration", node);
      node.bytes = bytes_of(entry, first_kind ? "cost_ram" : "out_cost", node);
      if (node.bytes > kMostProblemBytes - sum)
        refuse(text_of_node(node), ": sizes up to here add up to more than 2^53");
      sum += node.bytes;
      seconds += node.seconds;
      if (!std::isfinite(seconds)) refuse(text_of_node(node), ": times up to here have no finite sum");
      const json* backward = member(entry, "backward");
      node.backward = backward != nullptr && *backward == true;
      if (!index_.emplace(node.id, static_cast<int>(i)).second) refuse(text_of_node(node), ": its id is there twice");
      nodes_.push_back(std::move(node));
    }
  }

  const json& number(const json& entry, const char* name, const Node& node) const {
    const json* found = member(entry, name);
    if (found == nullptr) refuse(text_of_node(node), " has no '", name, "'");
    if (!found->is_number()) refuse(text_of_node(node), ": '", name, "' is no number");
    if (!std::isfinite(found->get<double>()) || found->get<double>() < 0) {
      refuse(text_of_node(node), ": '", name, "' is ", found->dump(), ", wanted at least 0");
    }
    return *found;
  }
  double seconds_of(const json& entry, const char* name, const Node& node) const {
    return number(entry, name, node).get<double>();
  }
  std::int64_t bytes_of(const json& entry, const char* name, const Node& node) const {
    const json& found = number(entry, name, node);
    const double value = found.get<double>();
    if (value >= static_cast<double>(kMostProblemBytes))
      refuse(text_of_node(node), ": '", name, "' is ", found.dump(), ", wanted less than 2^53");
    if (found.is_number_integer()) return found.get<std::int64_t>();
    if (value != std::floor(value)) {
      refuse(text_of_node(node), ": '", name, "' is ", found.dump(), ", wanted a whole number",
             hint("give all sizes in a smaller unit"));
    }
    return static_cast<std::int64_t>(value);
  }

  int index_of(const json& id, const char* what, std::size_t place) const {
    const auto found = is_id(id) ? index_.find(id.dump()) : index_.end();
    if (found == index_.end()) {
      refuse(what, " ", place, " names ", is_id(id) ? "node " + id.dump() : "something else", ", which is not there");
    }
    return found->second;
  }

  void read_links() {
    const json& links = array(graph_, "links", "edges", kMostLinks);
    for (std::size_t i = 0; i < links.size(); ++i) {
      const json* source = links[i].is_object() ? member(links[i], "source") : nullptr;
      const json* target = links[i].is_object() ? member(links[i], "target") : nullptr;
      if (links[i].is_object() && source == nullptr) source = member(links[i], "0");
      if (links[i].is_object() && target == nullptr) target = member(links[i], "1");
      if (source == nullptr || target == nullptr) refuse("link ", i, " has no source or no target");
      const int from = index_of(*source, "link", i), to = index_of(*target, "link", i);
      if (from == to) refuse(text_of_node(node(from)), " reads its own output: the graph has a cycle");
      node(to).inputs.push_back(from);
    }
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      std::vector<int>& inputs = nodes_[i].inputs;
      std::sort(inputs.begin(), inputs.end());
      inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
      for (const int input : inputs) node(input).readers.push_back(static_cast<int>(i));
    }
  }

  /// The nodes' places in the order that the file wants; is_given: that it says itself.
  std::vector<int> wanted_order(bool& is_given) const {
    std::vector<int> order(nodes_.size());
    std::iota(order.begin(), order.end(), 0);
    const json* attributes = member(graph_, "graph");
    const json* given = attributes != nullptr && attributes->is_object() ? member(*attributes, "order") : nullptr;
    is_given = given != nullptr;
    if (is_given) {
      if (!given->is_array() || given->size() != nodes_.size()) {
        refuse("'graph.order' is no list of all ", nodes_.size(), " nodes");
      }
      std::vector<bool> seen(nodes_.size());
      for (std::size_t i = 0; i < order.size(); ++i) {
        order[i] = index_of((*given)[i], "'graph.order' at place", i);
        if (seen[static_cast<std::size_t>(order[i])])
          refuse("'graph.order' has ", text_of_node(node(order[i])), " twice");
        seen[static_cast<std::size_t>(order[i])] = true;
      }
    } else if (ids_are_numbers_) {
      std::vector<std::pair<std::int64_t, std::uint64_t>> numbers;
      for (const Node& one : nodes_) numbers.push_back(number_of(json::parse(one.id)));
      std::sort(order.begin(), order.end(), [&](int a, int b) { return numbers[at(a)] < numbers[at(b)]; });
    }
    return order;
  }

  /// The first in the wanted order whose inputs are there, again and again.
  std::vector<int> execution_order() const {
    bool is_given = false;
    const std::vector<int> wanted = wanted_order(is_given);
    std::vector<int> place(nodes_.size()), missing(nodes_.size()), order;
    for (std::size_t i = 0; i < wanted.size(); ++i) place[at(wanted[i])] = static_cast<int>(i);
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      missing[i] = static_cast<int>(nodes_[i].inputs.size());
      if (missing[i] == 0) ready.push(place[i]);
    }
    while (!ready.empty()) {
      const int next = wanted[at(ready.top())];
      ready.pop();
      order.push_back(next);
      for (const int reader : node(next).readers) {
        if (--missing[at(reader)] == 0) ready.push(place[at(reader)]);
      }
    }
    if (order.size() < nodes_.size()) refuse_cycle(missing);
    for (std::size_t i = 0; is_given && i < order.size(); ++i) {
      if (order[i] != wanted[i])
        refuse("'graph.order' has ", text_of_node(node(wanted[i])), " before one of its inputs");
    }
    return order;
  }

  [[noreturn]] void refuse_cycle(const std::vector<int>& missing) const {
    // From a node that waits to one that it waits for, until one comes again: that one is on a cycle.
    int on = 0;
    while (missing[at(on)] == 0) ++on;
    for (std::vector<bool> seen(nodes_.size()); !seen[at(on)];) {
      seen[at(on)] = true;
      const std::vector<int>& inputs = node(on).inputs;
      on = *std::find_if(inputs.begin(), inputs.end(), [&](int input) { return missing[at(input)] > 0; });
    }
    refuse(text_of_node(node(on)), " reads what is made from its own output: the graph has a cycle");
  }

  Instance in_order(const std::vector<int>& order) {
    Instance instance;
    if (const json* attributes = member(graph_, "graph"); attributes != nullptr && attributes->is_object()) {
      const json* name = member(*attributes, "name");
      if (name != nullptr && name->is_string()) instance.name = name->get<std::string>();
    }
    std::vector<int> place(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) place[at(order[i])] = static_cast<int>(i);
    for (std::size_t i = 0; i < order.size(); ++i) {
      Node& from = node(order[i]);
      Operation operation{from.name, from.seconds, 0, {}, {static_cast<int>(i)}};
      for (const int input : from.inputs) operation.inputs.push_back(place[at(input)]);
      std::sort(operation.inputs.begin(), operation.inputs.end());
      instance.problem.operations.push_back(std::move(operation));
      instance.problem.values.push_back({from.name, from.bytes, static_cast<int>(i)});
      instance.ids.push_back(from.id);
      instance.backward.push_back(from.backward);
    }
    return instance;
  }

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  Node& node(int index) { return nodes_[at(index)]; }
  const Node& node(int index) const { return nodes_[at(index)]; }

  std::string where_;
  json graph_;
  std::vector<Node> nodes_;
  std::unordered_map<std::string, int> index_;  // of nodes, by id
  bool ids_are_numbers_ = true;
};

/// Whether value i is all that operation i writes, and the format can say it.
void check_instance(const Instance& instance) {
  const Problem& problem = instance.problem;
  check_problem(problem);
  SF_CHECK(problem.values.size() == problem.operations.size() && problem.order.empty(), ArgumentError,
           "write_instance: ", problem.values.size(), " values of ", problem.operations.size(), " operations and ",
           problem.order.size(), " pairs of an order, wanted an output each and no such pair");
  for (std::size_t i = 0; i < problem.operations.size(); ++i) {
    const Operation& operation = problem.operations[i];
    const PlannedValue& value = problem.values[i];
    const bool plain = operation.workspace == 0 && operation.repeatable && operation.overwrites.empty() &&
                       !operation.seconds_again && value.movable && !value.needed_at_end &&
                       operation.outputs == std::vector<int>{static_cast<int>(i)};
    SF_CHECK(plain, ArgumentError, "write_instance: operation ", i, " '", operation.name,
             "': a file knows operations with one output, which has their index, and with no workspace, which may be "
             "executed again in the same time, write over nothing, and whose outputs may be moved and dropped");
  }
}

}  // namespace

Instance read_instance(const std::filesystem::path& path) {
  return InstanceReader(path).read();
}

void write_instance(const std::filesystem::path& path, const Instance& instance) {
  check_instance(instance);
  nlohmann::ordered_json nodes = nlohmann::ordered_json::array(), links = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < instance.problem.operations.size(); ++i) {
    const Operation& operation = instance.problem.operations[i];
    nodes.push_back({{"name", operation.name},
                     {"backward", i < instance.backward.size() && instance.backward[i]},
                     {"cost_cpu", operation.seconds},
                     {"cost_ram", instance.problem.values[i].bytes},
                     {"id", i}});
    for (const int input : operation.inputs) links.push_back({{"source", input}, {"target", i}});
  }
  const nlohmann::ordered_json graph = {{"directed", true},
                                        {"multigraph", false},
                                        {"graph", {{"name", instance.name}}},
                                        {"nodes", std::move(nodes)},
                                        {"links", std::move(links)}};
  try {
    write_whole_file(path, graph.dump() + "\n", "write_instance");
  } catch (const nlohmann::json::type_error&) {
    throw ArgumentError(error_text_of("write_instance: a name is not UTF-8"));
  }
}

}  // namespace sectionflow::planning

#include "graph/device_scope.h"

#include <algorithm>
#include <utility>

namespace sectionflow {
namespace {

constexpr std::string_view kSoft = "on device ", kHard = "on device only ";

bool is_device_name(std::string_view name) {
  for (const std::string_view kind : {"cpu:", "cuda:"}) {
    if (!name.starts_with(kind)) continue;
    const std::string_view number = name.substr(kind.size());
    const auto is_digit = [](char digit) { return digit >= '0' && digit <= '9'; };
    const bool is_written_once = number == "0" || !number.starts_with('0');
    return !number.empty() && is_written_once && number.size() <= 4 &&
           std::all_of(number.begin(), number.end(), is_digit);
  }
  return false;
}

/// Nodes of inner scopes have an entry before: the first counts.
void add_from(Graph& graph, NodeId first, const std::string& collection) {
  for (NodeId id = first; id < graph.num_nodes(); ++id) graph.add_to_collection(collection, Operation(graph.node(id)));
}

}  // namespace

DeviceScope::DeviceScope(Graph& graph, std::string device, const DeviceScopeOptions& options, Where where)
    : graph_(graph), collection_(options.soft ? kSoft : kHard), first_(graph.num_nodes()) {
  call_at(where, [&] {
    SF_CHECK(is_device_name(device), ArgumentError, "DeviceScope: '", device, "' is no device",
             hint("name it as \"cpu:0\" or \"cuda:1\""));
  });
  collection_ += device;
}

DeviceScope::~DeviceScope() {
  add_from(graph_, first_, collection_);
}

void name_device_from(Graph& graph, NodeId first, const NamedDevice& device) {
  add_from(graph, first, std::string(device.is_soft ? kSoft : kHard) + device.name);
}

std::map<NodeId, NamedDevice> named_devices(const Graph& graph) {
  std::map<NodeId, NamedDevice> named;
  for (const CollectedItem& item : graph.collected_items()) {
    const std::string_view collection = item.collection;
    if (!collection.starts_with(kSoft) || !item.operation.valid()) continue;
    const bool is_soft = !collection.starts_with(kHard);
    const std::string_view name = collection.substr(is_soft ? kSoft.size() : kHard.size());
    if (is_device_name(name)) named.emplace(item.operation.node().id(), NamedDevice{std::string(name), is_soft});
  }
  return named;
}

}  // namespace sectionflow

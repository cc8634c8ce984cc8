#include "runtime/check_placement.h"

#include <glog/logging.h>

#include <map>
#include <set>
#include <string>

#include "graph/device_scope.h"
#include "graph/op_def.h"
#include "kernels/kernel_registry.h"
#include "runtime/placement.h"

namespace sectionflow {

std::vector<NodeId> executed_operations(const Schedule& schedule) {
  std::vector<NodeId> operations;
  std::set<NodeId> seen;
  for (const Step& step : schedule.steps) {
    if (step.kind == StepKind::compute && seen.insert(step.node).second) operations.push_back(step.node);
  }
  return operations;
}

namespace {

/// Kinds of devices on which an op has kernels: "cpu, cuda".
std::string kinds_with_kernels(const std::string& op) {
  std::string kinds;
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda}) {
    try {
      if (kernel_registry(kind).has(op))
        kinds += text_of(kinds.empty() ? "" : ", ", kind == DeviceKind::cpu ? "cpu" : "cuda");
    } catch (const DeviceError&) {
      // A kind that this machine has not has no kernels here.
    }
  }
  return kinds.empty() ? "none" : kinds;
}

}  // namespace

void check_placement(const Graph& graph, const Schedule& schedule, const DeviceSpec& device) {
  const std::map<NodeId, NamedDevice> named = named_devices(graph);
  if (named.empty()) return;
  const std::string here = device_name(device);
  std::map<std::string, std::vector<NodeId>> elsewhere;
  for (const NodeId id : executed_operations(schedule)) {
    const auto meant = named.find(id);
    if (meant == named.end() || meant->second.name == here) continue;
    const Node& node = graph.node(id);
    SF_CHECK(meant->second.is_soft, DeviceError, node.label(), " is to be on ", meant->second.name,
             " alone; devices of the session: ", here, "; ", node.op().name,
             " has kernels on: ", kinds_with_kernels(node.op().name), Fact{"where", node.place()},
             hint("give the session that device, name this one in DeviceScope, or let it be soft"));
    elsewhere[meant->second.name].push_back(id);
  }
  for (const auto& [name, nodes] : elsewhere) {
    LOG(INFO) << "placement: " << nodes.size() << (nodes.size() == 1 ? " operation that is" : " operations that are")
              << " meant for " << name << ", which the session has not, " << (nodes.size() == 1 ? "is" : "are")
              << " on " << here << ": " << graph.node(nodes.front()).label() << (nodes.size() == 1 ? "" : " the first");
  }
}

}  // namespace sectionflow

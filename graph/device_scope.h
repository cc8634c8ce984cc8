#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// What becomes of operations whose device a session has not.
struct DeviceScopeOptions {
  /// They are executed by the session's device, and the log says so; false: the session refuses them (SF-E500).
  bool soft = true;
};

/// While it lives, nodes are made that are meant for a device: `{ DeviceScope on(graph, "cuda:1"); y = matmul(x, w);
/// }`. Of scopes within each other the inner one counts. Gradients of a node are meant for its device. Files keep it,
/// as collections. The graph must outlive it. Nodes are named as the scope ends: end it before anything is planned.
class DeviceScope {
 public:
  /// Throws: ArgumentError for a name other than "cpu:N" or "cuda:N", N without leading zeros.
  DeviceScope(Graph& graph, std::string device, const DeviceScopeOptions& options = {}, Where where = Where::here());
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Graph& graph_;
  std::string collection_;
  NodeId first_;
};

/// The device that a node is meant for.
struct NamedDevice {
  std::string name;
  bool is_soft = true;
};
/// Those of all nodes that have one.
std::map<NodeId, NamedDevice> named_devices(const Graph& graph);
/// Means the nodes from number `first` on, those that have no device yet, for that device.
void name_device_from(Graph& graph, NodeId first, const NamedDevice& device);

}  // namespace sectionflow

#include "runtime/placement.h"

#include <glog/logging.h>

#include "graph/device_scope.h"
#include "runtime/check_placement.h"
#include "runtime/engine.h"

namespace sectionflow {

std::string device_name(const DeviceSpec& device) {
  return text_of(device.kind == DeviceKind::cpu ? "cpu:" : "cuda:", device.ordinal);
}

std::vector<std::string> placement_lines(const Session& session, Where where) {
  return call_at(where, [&] {
    const Executable* const program = engine(session).latest_program();
    SF_CHECK(program != nullptr, ArgumentError, "placement: the session has no program yet",
             hint("plan() or run something first"));
    const Graph& graph = session.graph();
    const std::map<NodeId, NamedDevice> named = named_devices(graph);
    const std::string here = device_name(session.options().device);
    std::vector<std::string> lines;
    for (const NodeId id : executed_operations(program->schedule)) {
      const auto meant = named.find(id);
      const bool is_elsewhere = meant != named.end() && meant->second.name != here;
      lines.push_back(text_of(graph.node(id).label(), ": ", here,
                              is_elsewhere ? text_of(", meant for ", meant->second.name) : std::string()));
    }
    return lines;
  });
}

void log_placement(const Session& session, Where where) {
  for (const std::string& line : placement_lines(session, where)) LOG(INFO) << "placement: " << line;
}

}  // namespace sectionflow

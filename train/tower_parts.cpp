#include "train/tower_parts.h"

#include <algorithm>
#include <set>

#include "base/nearest.h"
#include "device/cpu_device.h"
#include "graph/nodes/update.h"
#include "runtime/placement.h"
#include "train/tower_batches.h"

namespace sectionflow {

Tower::Tower(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Tower::~Tower() = default;

int Tower::number() const {
  return parts_->number;
}

const std::string& Tower::device() const {
  return parts_->device;
}

Graph& Tower::graph() const {
  return parts_->graph;
}

GraphSectionManager& Tower::manager() const {
  return parts_->manager;
}

Session& Tower::session() const {
  return *parts_->session;
}

Value Tower::output(const std::string& name) const {
  const auto found = parts_->outputs.find(name);
  if (found != parts_->outputs.end()) return found->second.value;
  std::vector<std::string> names;
  for (const auto& [known, output] : parts_->outputs) names.push_back(known);
  const NamesInFile known = names_in_file(name, names, "have `build` return it");
  throw ArgumentError(error_text_of("towers have no output '", name, "'; there are: ", known.list, known.hint),
                      ErrorCode::example_names);
}

SessionOptions cpu(int ordinal, SessionOptions options) {
  options.device = DeviceSpec{.kind = DeviceKind::cpu, .ordinal = ordinal};
  return options;
}

namespace {

/// What would leave towers with different bits.
void check_devices(const std::vector<SessionOptions>& devices) {
  const SessionOptions& first = devices.front();
  std::set<std::string> names;
  for (const SessionOptions& device : devices) {
    const std::string name = device_name(device.device);
    SF_CHECK(device.device.ordinal >= 0, ArgumentError, "make_parallel: '", name, "' is no device",
             hint("number devices from 0: cpu(0, {...}), cpu(1, {...})"));
    const auto check_same = [&](bool is_same, const char* what, const auto& of_first, const auto& here) {
      SF_CHECK_CODE(is_same, ArgumentError, ErrorCode::ranks, "make_parallel: ", device_name(first.device), " has ",
                    what, " ", of_first, ", and ", name, " has ", here,
                    hint("towers compute the same bits with as many threads, one seed, on devices of one kind; budgets "
                         "may differ"));
    };
    check_same(device.device.kind == first.device.kind, "the kind", device_name(first.device), name);
    check_same(device.threads == first.threads, "threads:", first.threads, device.threads);
    check_same(device.seed == first.seed, "the seed", first.seed, device.seed);
    SF_CHECK_CODE(names.insert(name).second, ArgumentError, ErrorCode::ranks, "make_parallel: two devices are ", name,
                  hint("give each a number of its own: cpu(0, {...}), cpu(1, {...})"));
    SF_CHECK_CODE(device.communicator == nullptr, ArgumentError, ErrorCode::ranks, "make_parallel: ", name,
                  " has a communicator", hint("leave it out: towers make their own"));
  }
}

}  // namespace

std::vector<SessionOptions> devices_of_towers(std::vector<SessionOptions> devices) {
  SF_CHECK(!devices.empty(), ArgumentError, "make_parallel: there is no device",
           hint("one for each tower: {cpu(0, {.threads = 1}), cpu(1, {.threads = 1})}"));
  for (SessionOptions& device : devices) {
    if (device.device.kind == DeviceKind::cpu && device.threads == 0) {
      device.threads = std::max(1, available_cores() / static_cast<int>(devices.size()));
    }
  }
  check_devices(devices);
  return devices;
}

void check_tower(const Graph& graph, const std::vector<std::string>& inputs, const TowerOutputs& outputs, int towers) {
  for (const std::string& input : inputs) {
    const Value placeholder = placeholder_named(graph, input);
    SF_CHECK(placeholder.shape().rank() > 0, ArgumentError, "make_parallel: input '", input, "' is ",
             placeholder.type().text(), ", which has no first axis to split",
             hint("leave it out of the inputs: it is fed whole, to all towers"));
  }
  for (const auto& [name, output] : outputs) {
    SF_CHECK(output.value.valid() && &output.value.graph() == &graph, ArgumentError, "make_parallel: output '", name,
             "' is no value of the tower's graph");
    SF_CHECK(output.join != Join::concatenate || output.value.shape().rank() > 0, ArgumentError,
             "make_parallel: output '", name, "' is ", output.value.type().text(),
             " and has no first axis to concatenate", hint("Join::stack gives a number of each tower"));
  }
  const bool trains =
      !graph.operations(kTrainingOperations).empty() || !graph.operations(kAccumulationOperations).empty();
  SF_CHECK_CODE(!trains || ranks_of(graph) == towers, ArgumentError, ErrorCode::ranks,
                "make_parallel: the updates that `build` adds are of ", ranks_of(graph), " ranks, and there are ",
                towers, " towers", hint("give TrainingOptions::ranks or UpdateOptions::ranks the number of towers"));
}

bool same_outputs(const TowerOutputs& a, const TowerOutputs& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.join == y.second.join &&
           x.second.value.node().id() == y.second.value.node().id() &&
           x.second.value.output() == y.second.value.output();
  });
}

}  // namespace sectionflow

#include "swap/lms_simulator.h"

#include <algorithm>
#include <limits>

namespace sectionflow {
namespace {

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

/// The largest difference of levels by which neighbours of `destinations` share a swap-in: down to it every groupby
/// gives the same groups. 0 where nothing is shared.
int deciding_groupby(const LmsLevels& levels, const NodeSet& destinations, int groupby) {
  int largest = 0;
  for (std::size_t i = 1; i < destinations.size(); ++i) {
    const int gap = std::max(1, levels.distance(destinations[i - 1], destinations[i]));
    if (gap <= groupby) largest = std::max(largest, gap);
  }
  return largest;
}

/// The state of one simulation.
class LmsSimulationRun {
 public:
  LmsSimulationRun(LmsSimulator& simulator, const LmsParameters& parameters, const LmsSimulationOptions& options)
      : sim_(&simulator),
        parameters_(parameters),
        options_(options),
        count_(sim_->tensors_.size(), 0),
        live_(sim_->tensors_.size(), false),
        host_count_(sim_->tensors_.size(), 0),
        executed_(at(sim_->graph_->num_nodes()), false),
        triggered_(executed_.size()),
        copies_for_(executed_.size()),
        released_by_(executed_.size()) {
    shows_ = sim_->log_->shows(1) && !options.on_demand;
  }

  /// The number of the change of device bytes that has led to the peak.
  int peak_change() const { return peak_change_; }

  /// Has the swap-ins that are on the device after that change noted: their bytes, by deciding_groupby.
  void note_shared_at(int change) { noted_change_ = change; }
  const std::map<int, std::size_t>& shared_bytes() const { return shared_bytes_; }

  LmsSimulation simulate() {
    for (const NodeSet& level : sim_->levels_->nodes) {
      for (NodeId id : level) {
        if (sim_->graph_->is_valid(id) && !sim_->graph_->is_trainable(id)) execute(id);
        executed_[at(id)] = true;
        if (refused_ && !options_.to_the_end) return finish();
      }
    }
    return finish();
  }

 private:
  /// A swapped-in tensor for a group of readers.
  struct Copy {
    int tensor;
    int count;  ///< readers still to come
    bool live = false;
  };

  LmsSimulation finish() {
    result_.fits = !refused_;
    result_.host_warning = result_.host_peak_bytes > sim_->host_limit_bytes_;
    return std::move(result_);
  }

  void execute(NodeId id) {
    if (!sim_->graph_->is_gpu(id)) return bring(id);
    note("execute ", id);
    for (int copy : copies_for_[at(id)]) start(copy);
    for (int tensor : sim_->inputs_[at(id)]) {
      if (copy_of(tensor, id) == nullptr && !live_[at(tensor)]) allocate(tensor, readers(tensor));
    }
    const int first = sim_->first_tensor_[at(id)], end = sim_->first_tensor_[at(id) + 1];
    for (int tensor = first; tensor < end; ++tensor) {
      if (readers(tensor) > 0) allocate(tensor, readers(tensor));
    }
    for (int tensor : sim_->inputs_[at(id)]) {
      Copy* copy = copy_of(tensor, id);
      --(copy != nullptr ? copy->count : count_[at(tensor)]);
    }
    for (int tensor : released_by_[at(id)]) --count_[at(tensor)];
    for (int tensor = first; tensor < end; ++tensor) swap(tensor, id);
    collect(id);
    bring(id);
  }

  int readers(int tensor) const { return static_cast<int>(sim_->readers_[at(tensor)].size()); }

  Copy* copy_of(int tensor, NodeId reader) {
    for (int copy : copies_for_[at(reader)]) {
      if (copies_[at(copy)].tensor == tensor) return &copies_[at(copy)];
    }
    return nullptr;
  }

  /// Registers the swap-out and the swap-ins of an output that the source has just written.
  void swap(int tensor, NodeId source) {
    if (!live_[at(tensor)]) return;
    const NodeSet far =
        far_destinations(*sim_->graph_, *sim_->levels_, sim_->tensors_[at(tensor)], parameters_.threshold);
    if (far.empty()) return;
    count_[at(tensor)] -= static_cast<int>(far.size());
    delay_swap_out(tensor, far);
    const auto groups =
        grouped(*sim_->levels_, far, parameters_.syncs_in() || options_.on_demand ? 0 : parameters_.groupby);
    host_count_[at(tensor)] = static_cast<int>(groups.size());
    change_host(sim_->bytes_[at(tensor)], true);
    for (const SwapGroup& group : groups) {
      const int copy = static_cast<int>(copies_.size());
      copies_.push_back({tensor, static_cast<int>(group.destinations.size())});
      for (NodeId reader : group.destinations) copies_for_[at(reader)].push_back(copy);
      const auto trigger = trigger_of(source, group.first());
      // One that has been executed can bring nothing any more: the reader brings the copy itself.
      if (trigger && !executed_[at(*trigger)]) triggered_[at(*trigger)].push_back(copy);
    }
  }

  /// The copy to the host still reads the tensor while its near readers are executed.
  void delay_swap_out(int tensor, const NodeSet& far) {
    if (parameters_.syncs_out() || options_.on_demand || count_[at(tensor)] == 0) return;
    std::optional<NodeId> last;
    for (NodeId reader : sim_->readers_[at(tensor)]) {
      if (std::find(far.begin(), far.end(), reader) != far.end()) continue;
      if (!last || sim_->levels_->of(reader) >= sim_->levels_->of(*last)) last = reader;
    }
    if (!last || sim_->levels_->of(*last) + 1 >= sim_->levels_->count()) return;
    ++count_[at(tensor)];
    released_by_[at(*last)].push_back(tensor);
  }

  std::optional<NodeId> trigger_of(NodeId source, NodeId reader) {
    if (options_.on_demand) return std::nullopt;
    if (!parameters_.syncs_in()) {
      const auto found = sim_->trigger(source, reader, parameters_.ahead);
      if (found) return found;
    }
    std::optional<NodeId> latest;
    for (NodeId input : sim_->graph_->fan_in(reader)) {
      const bool counts = input != source && sim_->graph_->is_valid(input) && sim_->graph_->is_gpu(input) &&
                          !sim_->graph_->follows_update(input);
      if (counts && (!latest || sim_->levels_->of(input) > sim_->levels_->of(*latest))) latest = input;
    }
    if (latest || parameters_.ahead == 1) return latest;
    return sim_->trigger(source, reader, 1);
  }

  void collect(NodeId id) {
    const auto release_if_done = [&](int tensor) {
      if (!live_[at(tensor)] || count_[at(tensor)] > 0) return;
      live_[at(tensor)] = false;
      change_device(tensor, false);
    };
    for (int tensor : sim_->inputs_[at(id)]) release_if_done(tensor);
    for (int tensor : released_by_[at(id)]) release_if_done(tensor);
    for (int tensor = sim_->first_tensor_[at(id)]; tensor < sim_->first_tensor_[at(id) + 1]; ++tensor)
      release_if_done(tensor);
    for (int index : copies_for_[at(id)]) {
      Copy& copy = copies_[at(index)];
      if (!copy.live || copy.count > 0) continue;
      copy.live = false;
      change_device(copy.tensor, false);
    }
  }

  void bring(NodeId id) {
    for (int copy : triggered_[at(id)]) start(copy);
  }

  void start(int index) {
    Copy& copy = copies_[at(index)];
    if (copy.live || copy.count == 0) return;
    copy.live = true;
    change_device(copy.tensor, true);
    if (--host_count_[at(copy.tensor)] == 0) change_host(sim_->bytes_[at(copy.tensor)], false);
  }

  void allocate(int tensor, int lifetime) {
    live_[at(tensor)] = true;
    count_[at(tensor)] = lifetime;
    change_device(tensor, true);
  }

  void change_device(int tensor, bool more) {
    const std::size_t bytes = sim_->bytes_[at(tensor)];
    if (more) {
      // Exactly what is free is refused, too.
      refused_ = refused_ || device_bytes_ + bytes >= sim_->budget_bytes_;
      device_bytes_ += bytes;
      if (device_bytes_ > result_.peak_bytes) {
        result_.peak_bytes = device_bytes_;
        peak_change_ = num_changes_;
      }
    } else {
      device_bytes_ -= bytes;
    }
    if (num_changes_++ == noted_change_) note_shared();
    if (shows_) {
      sim_->log_->detail(1, 4, "[Simulator] ", more ? "allocate " : "release ", sim_->tensors_[at(tensor)].name(), " ",
                         bytes, " bytes, ", device_bytes_, " in use", refused_ ? ": out of memory" : "");
    }
    trace();
  }

  void note_shared() {
    for (const Copy& copy : copies_) {
      if (!copy.live) continue;
      const NodeSet far =
          far_destinations(*sim_->graph_, *sim_->levels_, sim_->tensors_[at(copy.tensor)], parameters_.threshold);
      const int decides = deciding_groupby(*sim_->levels_, far, parameters_.groupby);
      shared_bytes_[decides] += sim_->bytes_[at(copy.tensor)];
    }
  }

  void change_host(std::size_t bytes, bool more) {
    host_bytes_ = more ? host_bytes_ + bytes : host_bytes_ - bytes;
    result_.host_peak_bytes = std::max(result_.host_peak_bytes, host_bytes_);
    trace();
  }

  void trace() {
    if (!options_.trace) return;
    result_.trace.device.push_back(device_bytes_);
    result_.trace.host.push_back(host_bytes_);
  }

  void note(const char* what, NodeId id) {
    if (shows_) sim_->log_->detail(1, 2, "[Simulator] ", what, sim_->graph_->graph().node(id).name());
  }

  LmsSimulator* sim_;
  LmsParameters parameters_;
  LmsSimulationOptions options_;
  LmsSimulation result_;
  std::vector<int> count_;  // of each tensor: readers of the first stay that are still to come
  std::vector<bool> live_;
  std::vector<int> host_count_;  // of each tensor: swap-ins still to come
  std::vector<bool> executed_;
  std::vector<std::vector<int>> triggered_, copies_for_, released_by_;  // by node
  std::vector<Copy> copies_;
  std::size_t device_bytes_ = 0, host_bytes_ = 0;
  int num_changes_ = 0, peak_change_ = -1, noted_change_ = -1;  // of device bytes
  std::map<int, std::size_t> shared_bytes_;
  bool refused_ = false, shows_ = false;
};

LmsSimulator::LmsSimulator(const LmsGraph& graph, const LmsLevels& levels, LmsLog& log, std::size_t budget_bytes,
                           std::size_t host_limit_bytes)
    : graph_(&graph),
      levels_(&levels),
      log_(&log),
      budget_bytes_(budget_bytes),
      host_limit_bytes_(host_limit_bytes),
      inputs_(static_cast<std::size_t>(graph.num_nodes())) {
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    first_tensor_.push_back(static_cast<int>(tensors_.size()));
    Node& node = graph.graph().node(id);
    for (int output = 0; output < static_cast<int>(node.output_types().size()); ++output) {
      const int tensor = static_cast<int>(tensors_.size());
      tensors_.push_back(node.output(output));
      bytes_.push_back(graph.bytes(tensors_.back()));
      readers_.emplace_back();
      const bool counts = graph.is_valid(id) && !graph.is_trainable(id);
      for (NodeId reader : graph.consumers(id, output)) {
        if (!counts || !graph.is_valid(reader) || !graph.is_gpu(reader)) continue;
        readers_.back().push_back(reader);
        inputs_[at(reader)].push_back(tensor);
      }
    }
  }
  first_tensor_.push_back(static_cast<int>(tensors_.size()));
}

std::optional<NodeId> LmsSimulator::trigger(NodeId source, NodeId destination, int ahead) {
  const auto key = std::tuple(source, destination, ahead);
  const auto found = triggers_.find(key);
  if (found != triggers_.end()) return found->second;
  return triggers_[key] = find_trigger(*graph_, *levels_, source, destination, ahead);
}

LmsSimulation LmsSimulator::simulate(const LmsParameters& parameters, const LmsSimulationOptions& options) {
  return LmsSimulationRun(*this, parameters, options).simulate();
}

int LmsSimulator::largest_groupby_left(const LmsParameters& parameters) {
  const LmsSimulationOptions to_the_end{.to_the_end = true};
  LmsSimulationRun first(*this, parameters, to_the_end);
  std::size_t left = first.simulate().peak_bytes;
  LmsSimulationRun second(*this, parameters, to_the_end);
  second.note_shared_at(first.peak_change());
  second.simulate();
  // What a tensor takes when depends on its own swap-ins alone. So at this peak a smaller groupby takes away what it
  // groups otherwise, at most.
  const auto& shared = second.shared_bytes();
  for (auto decided = shared.rbegin(); decided != shared.rend() && decided->first > 0; ++decided) {
    left -= decided->second;
    if (left < budget_bytes_) return decided->first - 1;
  }
  return -1;
}

}  // namespace sectionflow

#include "sections/cut_problem.h"

#include <algorithm>

#include "graph/op_def.h"

namespace sectionflow {
namespace {

using planning::CutProblem;
using planning::PlacedValue;

class ProblemMaker {
 public:
  ProblemMaker(const Draft& draft, const ConcreteGraph& graph, const std::vector<int>& place_of, int num_places)
      : draft_(draft), schedule_(draft.schedule) {
    const auto size = static_cast<std::size_t>(num_places);
    problem_.forward_bytes.assign(size, 0);
    problem_.gradient_bytes.assign(size, 0);
    problem_.forward_seconds.assign(size, 0);
    problem_.inputs.resize(size);
    int last = 0;
    for (const Step& step : schedule_.steps) {
      const int place = step.kind == StepKind::compute ? place_of[static_cast<std::size_t>(step.node)] : -1;
      // What has no place of its own, such as a feed, stands beside what has.
      last = place >= 0 ? place : last;
      places_.push_back(last);
    }
    for (NodeId id = 0; id < graph.graph().num_nodes(); ++id) {
      const Node& node = graph.graph().node(id);
      const int place = place_of[static_cast<std::size_t>(id)];
      if (place < 0 || node.phase() != Phase::model || node.op().is_given() || node.op().recompute == Recompute::once)
        continue;
      for (const Value& input : node.inputs()) {
        const int maker = place_of[static_cast<std::size_t>(input.node().id())];
        if (maker >= 0 && maker < place && !input.node().op().is_given())
          problem_.inputs[static_cast<std::size_t>(place)].push_back(maker);
      }
    }
  }

  CutProblem made(StepTimes& times) {
    add_values();
    add_bytes();
    const std::vector<double> seconds = times.of(schedule_);
    for (StepIndex step = 0; step < schedule_.half; ++step) {
      problem_.forward_seconds[place(step)] += seconds[static_cast<std::size_t>(step)];
    }
    return std::move(problem_);
  }

 private:
  std::size_t place(StepIndex step) const { return static_cast<std::size_t>(places_[static_cast<std::size_t>(step)]); }
  bool is_forward(StepIndex step) const { return step < schedule_.half; }
  bool is_in_device(const Storage& storage) const { return storage.tier == Tier::device && storage.bytes > 0; }
  /// Whether a storage waits for a gradient.
  bool is_kept(const Storage& storage) const {
    return is_in_device(storage) && is_forward(storage.life.first) && !is_forward(storage.life.last);
  }

  /// The highest place that reads each storage; -1 for those that are brought in anew wherever they are read.
  std::vector<int> last_uses() const {
    std::vector<int> last(draft_.storage.storages.size(), -1);
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
      if (schedule_.steps[i].kind != StepKind::compute) continue;
      for (const Operand& input : schedule_.steps[i].inputs) {
        if (input.kind != Operand::Kind::buffer) continue;
        const Buffer& buffer = schedule_.buffers[static_cast<std::size_t>(input.index)];
        if (!buffer.value.valid() || buffer.value.node().op().is_brought_in()) continue;
        int& place =
            last[static_cast<std::size_t>(draft_.storage.storage_of_buffer[static_cast<std::size_t>(input.index)])];
        place = std::max(place, places_[i]);
      }
    }
    return last;
  }

  void add_values() {
    const std::vector<int> last = last_uses();
    for (std::size_t i = 0; i < draft_.storage.storages.size(); ++i) {
      const Storage& storage = draft_.storage.storages[i];
      if (!is_in_device(storage) || !is_forward(storage.life.first)) continue;
      const int made = places_[static_cast<std::size_t>(storage.life.first)];
      problem_.values.push_back(
          {.made = made,
           .last_use = std::max(made, last[i]),
           .first_gradient = is_kept(storage) ? places_[static_cast<std::size_t>(storage.life.last)] : -1,
           .bytes = static_cast<std::int64_t>(storage.bytes)});
    }
  }

  /// What is alive at each step beside what waits for gradients.
  void add_bytes() {
    std::vector<std::int64_t> change(schedule_.steps.size() + 1, 0);
    for (const Storage& storage : draft_.storage.storages) {
      if (!is_in_device(storage) || is_kept(storage)) continue;
      change[static_cast<std::size_t>(storage.life.first)] += static_cast<std::int64_t>(storage.bytes);
      change[static_cast<std::size_t>(storage.life.last) + 1] -= static_cast<std::int64_t>(storage.bytes);
    }
    std::int64_t alive = 0;
    for (StepIndex step = 0; step < static_cast<StepIndex>(schedule_.steps.size()); ++step) {
      alive += change[static_cast<std::size_t>(step)];
      std::int64_t& most = (is_forward(step) ? problem_.forward_bytes : problem_.gradient_bytes)[place(step)];
      most = std::max(most, alive);
    }
  }

  const Draft& draft_;
  const Schedule& schedule_;
  std::vector<int> places_;  // by step
  CutProblem problem_;
};

}  // namespace

CutProblem make_cut_problem(const Draft& draft, const ConcreteGraph& graph, const std::vector<int>& place_of,
                            int num_places, StepTimes& times) {
  return ProblemMaker(draft, graph, place_of, num_places).made(times);
}

}  // namespace sectionflow

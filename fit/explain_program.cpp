#include "fit/explain_program.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "fit/fate_reason.h"
#include "graph/ops/basic.h"
#include "runtime/step_events.h"
#include "schedule/node_parts.h"
#include "swap/simulate.h"

namespace sectionflow {
namespace {

std::size_t as_index(int index) {
  return static_cast<std::size_t>(index);
}

/// Which steps touch each buffer, ascending, and which step begins it.
struct Touches {
  explicit Touches(const Schedule& schedule) : steps(schedule.buffers.size()), maker(schedule.buffers.size(), kNobody) {
    for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
      const Step& step = schedule.steps[i];
      const auto touch = [&](const Operand& operand) {
        if (operand.kind != Operand::Kind::buffer) return;
        std::vector<StepIndex>& touched = steps[as_index(operand.index)];
        if (touched.empty() || touched.back() != static_cast<StepIndex>(i))
          touched.push_back(static_cast<StepIndex>(i));
      };
      for (const Operand& input : step.inputs) touch(input);
      for (const Operand& updated : step.updated) touch(updated);
      for (const Operand& output : step.outputs) {
        touch(output);
        // An output that began earlier is a kept one, which a replay reads.
        if (output.kind != Operand::Kind::buffer) continue;
        if (schedule.buffers[as_index(output.index)].life.first == static_cast<StepIndex>(i))
          maker[as_index(output.index)] = static_cast<StepIndex>(i);
      }
      touch(step.workspace);
    }
  }

  static constexpr StepIndex kNobody = -1;
  std::vector<std::vector<StepIndex>> steps;
  std::vector<StepIndex> maker;  ///< kNobody: it was there before, or is scratch
};

class Explainer {
 public:
  Explainer(const Program& program, const ConcreteGraph& graph, StepTimes& times)
      : program_(program),
        schedule_(program.schedule),
        graph_(graph),
        times_(times),
        seconds_(times.of(program.schedule)),
        prediction_(simulate(program.schedule, seconds_, times.drags_of(program.schedule))),
        touches_(program.schedule),
        peak_step_(program.plan.fullest_step) {}

  Explanation explanation() {
    Explanation made;
    made.budget_bytes = program_.report.budget_bytes;
    made.seconds = prediction_.seconds;
    made.copy_seconds = prediction_.copy_seconds;
    made.stall_seconds = prediction_.stall_seconds;
    made.peak = peak();
    for (const std::vector<int>& buffers : buffers_of_tensors()) made.tensors.push_back(tensor(buffers));
    for (std::size_t i = 0; i < seconds_.size(); ++i) {
      if (writes_anew_.contains(static_cast<StepIndex>(i))) made.again_seconds += seconds_[i];
    }
    return made;
  }

 private:
  const Buffer& buffer(int index) const { return schedule_.buffers[as_index(index)]; }
  const Step& step(StepIndex index) const { return schedule_.steps[as_index(index)]; }
  /// Touches::kNobody: before the program, which then is a backward half.
  std::string name_of(StepIndex index) const {
    return index == Touches::kNobody ? "the forward half" : step_name(step(index), graph_.graph());
  }
  double end_of(StepIndex index) const {
    return index == Touches::kNobody ? 0 : prediction_.steps[as_index(index)].end;
  }

  /// The buffers of each tensor by their first steps, tensors in the order of theirs. Scratch belongs to its node.
  std::vector<std::vector<int>> buffers_of_tensors() const {
    std::vector<int> all(schedule_.buffers.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
    std::ranges::stable_sort(all, {}, [&](int index) { return buffer(index).life.first; });
    std::map<std::pair<NodeId, int>, std::size_t> places;
    std::vector<std::vector<int>> tensors;
    for (const int index : all) {
      const Value& value = buffer(index).value;
      const auto key = value.valid() ? std::pair(value.node().id(), value.output())
                                     : std::pair(step(buffer(index).life.first).node, -1);
      const auto [place, is_new] = places.try_emplace(key, tensors.size());
      if (is_new) tensors.emplace_back();
      tensors[place->second].push_back(index);
    }
    return tensors;
  }

  ExplainedTensor tensor(const std::vector<int>& buffers) {
    const Buffer& first = buffer(buffers.front());
    const bool is_scratch = !first.value.valid();
    ExplainedTensor tensor;
    tensor.name = is_scratch ? graph_.graph().node(step(first.life.first).node).name() : first.value.name();
    tensor.type = is_scratch ? "scratch" : graph_.type(first.value).text();
    tensor.section = section_name(graph_.graph(), section_of(program_, graph_.graph(), first));
    tensor.bytes = first.bytes;
    std::vector<int> on_device;
    for (const int index : buffers) {
      add_stay(index, tensor);
      if (buffer(index).tier == Tier::device) on_device.push_back(index);
      if (!is_scratch) count(index, tensor);
    }
    if (!is_scratch) add_absences(on_device, tensor);
    TensorFacts facts = facts_of(on_device, first.value, tensor);
    facts.has_disk_home = std::ranges::any_of(buffers, [&](int index) { return is_on_way_from_disk(buffer(index)); });
    tensor.fate = fate_of(facts, tensor);
    if (tensor.fate == Fate::kept) tensor.spared_seconds = facts.least_seconds();
    tensor.reason = reason_of(facts, tensor);
    return tensor;
  }

  /// A variable in host memory that has no number of an offload.
  static bool is_on_way_from_disk(const Buffer& stay) {
    return stay.tier == Tier::host && stay.offload < 0 && is_variable(stay.value);
  }

  void add_stay(int index, ExplainedTensor& tensor) const {
    const Buffer& stay = buffer(index);
    tensor.bytes = std::max(tensor.bytes, stay.bytes);
    tensor.stays.push_back({.tier = tier_name(stay.tier),
                            .first_step = stay.life.first,
                            .last_step = stay.life.last,
                            .begin_seconds = prediction_.steps[as_index(stay.life.first)].start,
                            .end_seconds = prediction_.steps[as_index(stay.life.last)].end});
    const bool is_live = stay.life.first <= peak_step_ && peak_step_ <= stay.life.last;
    tensor.is_live_at_peak = tensor.is_live_at_peak || (stay.tier == Tier::device && is_live);
  }

  /// How a stay begins, and what that takes. What one step writes anew it shares among its outputs by their bytes.
  void count(int index, ExplainedTensor& tensor) {
    const StepIndex maker = touches_.maker[as_index(index)];
    if (maker == Touches::kNobody) return;
    const StepKind kind = step(maker).kind;
    if (is_transfer(kind)) {
      tensor.seconds += seconds_[as_index(maker)];
      if (kind == StepKind::copy_out) ++tensor.times_to_host;
      if (kind == StepKind::disk_write) ++tensor.times_to_disk;
    } else if (step(maker).part == 0 && !written_.insert(buffer(index).value).second) {
      ++tensor.times_again;
      for (const StepIndex part : execution_begun_at(maker)) {
        tensor.seconds += seconds_[as_index(part)] * share_of(index, maker);
        writes_anew_.insert(part);
      }
    }
  }

  /// The step, or all parts of its node that follow the first.
  std::vector<StepIndex> execution_begun_at(StepIndex first) const {
    std::vector<StepIndex> steps = {first};
    for (StepIndex i = first + 1; static_cast<int>(steps.size()) < step(first).parts; ++i) {
      if (step(i).kind == StepKind::compute && step(i).node == step(first).node) steps.push_back(i);
    }
    return steps;
  }

  double share_of(int index, StepIndex maker) const {
    std::size_t all = 0;
    int outputs = 0;
    for (const Operand& output : step(maker).outputs) {
      if (output.kind != Operand::Kind::buffer || touches_.maker[as_index(output.index)] != maker) continue;
      all += buffer(output.index).bytes;
      ++outputs;
    }
    return all > 0 ? static_cast<double>(buffer(index).bytes) / static_cast<double>(all) : 1.0 / outputs;
  }

  /// Where device memory is free of it between two stays.
  void add_absences(const std::vector<int>& on_device, ExplainedTensor& tensor) const {
    if (!on_device.empty() && buffer(on_device.front()).parts > 1) return;
    for (std::size_t i = 0; i + 1 < on_device.size(); ++i) {
      const StepIndex left = buffer(on_device[i]).life.last, back = buffer(on_device[i + 1]).life.first;
      const double away = prediction_.steps[as_index(back)].start - prediction_.steps[as_index(left)].end;
      tensor.byte_seconds_saved += static_cast<double>(tensor.bytes) * std::max(away, 0.0);
      if (left < peak_step_ && peak_step_ < back) tensor.saved_at_peak = tensor.bytes;
    }
  }

  TensorFacts facts_of(const std::vector<int>& on_device, const Value& value, const ExplainedTensor& tensor) {
    TensorFacts facts;
    facts.is_scratch = !value.valid();
    if (facts.is_scratch) {
      facts.is_of_ranks = is_scratch_of_ranks(buffer(on_device.front()));
      return facts;
    }
    const Node& node = value.node();
    facts.has_host_home = is_variable(value);
    if (!on_device.empty() && buffer(on_device.front()).parts > 1) {
      const Buffer& part = buffer(on_device.front());
      facts.parts = part.parts;
      facts.from = name_of(part.life.first);
      facts.until = name_of(part.life.last);
      return facts;
    }
    facts.add_alternatives(node.op(), tensor.bytes, times_);
    const StepIndex maker = on_device.empty() ? Touches::kNobody : touches_.maker[as_index(on_device.front())];
    if (maker == Touches::kNobody || is_transfer(step(maker).kind)) {
      facts.may_be_again = false;  // the program does not have its operation
    } else {
      facts.again_seconds = seconds_[as_index(maker)];
    }
    std::pair<StepIndex, StepIndex> idle{0, 0}, away{0, 0};
    const auto lengthen = [](std::pair<StepIndex, StepIndex>& longest, StepIndex from, StepIndex to) {
      if (to - from > longest.second - longest.first) longest = {from, to};
    };
    for (std::size_t i = 0; i < on_device.size(); ++i) {
      const std::vector<StepIndex>& touched = touches_.steps[as_index(on_device[i])];
      const bool was_before = touches_.maker[as_index(on_device[i])] == Touches::kNobody;
      if (was_before && !touched.empty()) lengthen(idle, Touches::kNobody, touched.front());
      for (std::size_t k = 0; k + 1 < touched.size(); ++k) lengthen(idle, touched[k], touched[k + 1]);
      if (i + 1 < on_device.size()) lengthen(away, buffer(on_device[i]).life.last, buffer(on_device[i + 1]).life.first);
    }
    // Where it is away, that is the longest stretch to tell of.
    const auto [from, to] = away.second > 0 ? away : idle;
    facts.steps = std::max(0, to - from - 1);
    if (to > from) {
      facts.from = name_of(from);
      facts.until = name_of(away.second > 0 ? first_reader(on_device, from, to) : to);
      facts.seconds = std::max(0.0, prediction_.steps[as_index(to)].start - end_of(from));
    }
    return facts;
  }

  /// Of the stay that begins at `to`: who is to read it.
  StepIndex first_reader(const std::vector<int>& on_device, StepIndex from, StepIndex to) const {
    for (const int index : on_device) {
      const std::vector<StepIndex>& touched = touches_.steps[as_index(index)];
      if (buffer(index).life.first == to && to > from && touched.size() > 1) return touched[1];
    }
    return to;
  }

  ExplainedPeak peak() const {
    ExplainedPeak peak;
    peak.step = peak_step_;
    peak.at = program_.report.fullest_step;
    peak.variables_bytes = program_.report.persistent_bytes;
    peak.peak_bytes = peak_behind(peak.variables_bytes, program_.plan, Tier::device);
    std::size_t live = 0;
    std::set<int> seen;
    for (int i = 0; i < static_cast<int>(schedule_.buffers.size()); ++i) {
      const int storage = program_.storage.storage_of_buffer[as_index(i)];
      const Buffer& part = buffer(i);
      // Of buffers in one storage the one that is alive at the step names it.
      const bool is_live = part.life.first <= peak_step_ && peak_step_ <= part.life.last;
      if (part.tier != Tier::device || !is_live || !seen.insert(storage).second) continue;
      const std::size_t bytes = program_.storage.storages[as_index(storage)].bytes;
      if (bytes == 0) continue;
      live += bytes;
      const bool is_scratch = !part.value.valid();
      const NodeId node = is_scratch ? step(is_scratch_of_ranks(part) ? part.life.first : peak_step_).node : NodeId{};
      peak.parts.push_back({.name = is_scratch ? graph_.graph().node(node).name() : part.value.name(),
                            .type = is_scratch ? "scratch" : type_text(part, graph_),
                            .bytes = bytes,
                            .why = why_live(i)});
    }
    std::ranges::stable_sort(peak.parts, std::greater<>(), &PeakPart::bytes);
    peak.unused_bytes = peak.peak_bytes - peak.variables_bytes - live;
    return peak;
  }

  std::string why_live(int index) const {
    if (!buffer(index).value.valid()) {
      return is_scratch_of_ranks(buffer(index)) ? "scratch of all that ranks have in common" : "the step's scratch";
    }
    const std::vector<StepIndex>& touched = touches_.steps[as_index(index)];
    const auto next = std::ranges::lower_bound(touched, peak_step_);
    if (next != touched.end() && *next == peak_step_)
      return touches_.maker[as_index(index)] == peak_step_ ? "the step writes it" : "the step reads it";
    if (next == touched.end()) return "held until later";
    if (next == touched.begin()) return "was there before; waits for " + name_of(*next);
    const StepIndex since = *(next - 1);
    return text_of("waits since ", name_of(since), " for ", name_of(*next), ", ", *next - since - 1, " steps");
  }

  const Program& program_;
  const Schedule& schedule_;
  const ConcreteGraph& graph_;
  StepTimes& times_;
  const std::vector<double> seconds_;
  const Prediction prediction_;
  const Touches touches_;
  const StepIndex peak_step_;
  std::set<Value> written_;  // in device memory, by a step that is no copy
  std::set<StepIndex> writes_anew_;
};

}  // namespace

Explanation explain_program(const Program& program, const ConcreteGraph& graph, StepTimes& times) {
  return Explainer(program, graph, times).explanation();
}

}  // namespace sectionflow

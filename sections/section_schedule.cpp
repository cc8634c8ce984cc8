#include "sections/section_schedule.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "base/error.h"
#include "graph/ops/basic.h"
#include "schedule/build_schedule.h"
#include "schedule/put_off_readers.h"

namespace sectionflow {
namespace {

bool is_forward_value(const SectionMap& map, Value value) {
  return map.is_forward(value.node().id()) && !is_variable(value);
}

class CycleWriter {
 public:
  CycleWriter(const ConcreteGraph& graph, const CycleRequest& request) : graph_(graph), request_(request) {
    std::vector<Value> fetched = request.held.until_backward;
    for (const CycleFetch& fetch : request.fetches) fetched.push_back(fetch.value);
    std::ranges::copy(request.held.until_end, std::back_inserter(fetched));
    needed_ = graph.needed(fetched, request.training);
    order_ = execution_order(graph, needed_);
    place_.assign(needed_.size(), 0);
    for (std::size_t i = 0; i < order_.size(); ++i) place_[order_[i]] = static_cast<int>(i);
    map_nodes({});
    last_ = map_.num_sections - 1;
    fed_before_.assign(needed_.size(), false);
    find_fetch_only();
  }

  CycleInstructions full_cycle() {
    settle_map({request_.held.until_backward.begin(), request_.held.until_backward.end()});
    settle_kept();
    write_forward();
    list_.half = static_cast<int>(list_.instructions.size());
    for (SectionIndex run = last_; run >= 0; --run) write_backward(run);
    hold_to_end();
    return {put_off_readers(std::move(list_), graph_), std::move(kept_)};
  }

  InstructionList backward_half(const std::vector<EntryValue>& entries) {
    list_.entries = entries;
    std::set<Value> left;
    for (const EntryValue& entry : entries) {
      left.insert(entry.value);
      left.insert(entry.other_names.begin(), entry.other_names.end());
    }
    fed_before_.assign(needed_.size(), true);
    kept_is_final_ = true;
    settle_map(left);
    for (SectionIndex run = last_; run >= 0; --run) write_backward(run);
    hold_to_end();
    return put_off_readers(std::move(list_), graph_);
  }

 private:
  void map_nodes(const std::map<NodeId, SectionIndex>& executed_lower) {
    map_ = map_sections(
        graph_.graph(), request_.groups, needed_, [&](NodeId id) { return graph_.reads(id); }, executed_lower);
  }

  /// Forward nodes that a run executes although they are of a higher section, as fetches may want, read variables
  /// there: maps the nodes until the updates wait for all of these. `kept` is kept from the forward pass in any case.
  void settle_map(const std::set<Value>& kept) {
    std::map<NodeId, SectionIndex> executed_lower;
    for (bool changed = true; changed;) {
      changed = false;
      kept_ = kept;
      for (SectionIndex run = last_; run >= 0; --run) {
        for (NodeId id : plan_run(run).recomputed) {
          const SectionIndex own = map_.section[id] == kOutside ? last_ : map_.section[id];
          SectionIndex& lowest = executed_lower.try_emplace(id, own).first->second;
          changed = changed || run < lowest;
          lowest = std::min(lowest, run);
        }
      }
      if (changed) map_nodes(executed_lower);
    }
  }

  /// The run that evaluates a fetch: the one asked for, or a later one where the node waits for an update that other
  /// fetches make wait.
  SectionIndex run_of(const CycleFetch& fetch) const {
    const NodeId id = fetch.value.node().id();
    return map_.is_forward(id) ? fetch.run : std::min(fetch.run, map_.backward_run[id]);
  }

  /// Forward nodes that only fetches of backward runs need: they are evaluated in those runs and nowhere else.
  void find_fetch_only() {
    std::vector<NodeId> roots;
    for (const CycleFetch& fetch : request_.fetches) {
      if (fetch.run == kForwardPass) roots.push_back(fetch.value.node().id());
    }
    const std::vector<bool> for_forward = forward_closure(roots);
    const std::vector<bool> for_training = graph_.needed(request_.held.until_backward, request_.training);
    for (NodeId id : order_) {
      if (map_.is_forward(id) && !for_training[id] && !for_forward[id]) fetch_only_.insert(id);
    }
  }

  // ---- What is kept from the forward pass to the backward runs.

  /// Finds the forward values that backward runs read and that are not computed again there: tensors that cross
  /// borders, the last section's interior, what stands outside, kept statistics.
  void settle_kept() {
    // A first value that is kept shortens what is computed again, which may spare others: repeat until nothing changes,
    // then keep only what is still asked for.
    for (std::size_t before = kept_.size() + 1; before != kept_.size();) {
      before = kept_.size();
      for (SectionIndex run = last_; run >= 0; --run) (void)plan_run(run);
    }
    std::set<Value> asked(request_.held.until_backward.begin(), request_.held.until_backward.end());
    asked_ = &asked;
    for (SectionIndex run = last_; run >= 0; --run) (void)plan_run(run);
    asked_ = nullptr;
    kept_ = std::move(asked);
  }

  /// Forward nodes to compute again in a run, and backward nodes to execute, both in execution order.
  struct Run {
    std::vector<NodeId> recomputed;
    std::vector<NodeId> backward;
  };

  Run plan_run(SectionIndex run) {
    std::set<NodeId> recomputed;
    Run result;
    const auto ask = [&](const Value& value) { ask_for(value, run, recomputed); };
    for (NodeId id : order_) {
      if (!map_.backward[id] || map_.backward_run[id] != run || !is_step(graph_.graph().node(id))) continue;
      if (graph_.graph().node(id).op().is_constant()) continue;
      result.backward.push_back(id);
      for (const Value& value : graph_.reads(id)) ask(value);
    }
    for (const CycleFetch& fetch : request_.fetches) {
      if (run_of(fetch) == run) ask(fetch.value);
    }
    // What waits for an update may be held to the end, and is a forward value in a micro-batch that updates nothing.
    if (run == 0) std::ranges::for_each(request_.held.until_end, ask);
    result.recomputed.assign(recomputed.begin(), recomputed.end());
    std::ranges::sort(result.recomputed, {}, [&](NodeId id) { return place_[id]; });
    return result;
  }

  /// A run reads `value`: it is kept, or computed again in the run, its inputs being asked for in turn.
  void ask_for(Value value, SectionIndex run, std::set<NodeId>& recomputed) {
    std::vector<Value> pending = {value};
    while (!pending.empty()) {
      const Value next = pending.back();
      pending.pop_back();
      const NodeId id = next.node().id();
      if (!is_forward_value(map_, next) || next.node().op().is_brought_in() || recomputed.contains(id)) continue;
      if (asked_ != nullptr && kept_.contains(next)) asked_->insert(next);
      if (kept_.contains(next)) continue;
      if (must_be_kept(next, run)) {
        kept_.insert(next);
        continue;
      }
      recomputed.insert(id);
      if (!fetch_only_.contains(id)) keep_statistics(next.node());
      for (const Value& input : graph_.reads(id)) pending.push_back(input);
    }
  }

  bool must_be_kept(Value value, SectionIndex run) const {
    if (kept_is_final_) return false;
    const NodeId id = value.node().id();
    if (fetch_only_.contains(id)) return false;
    return map_.section[id] != run || run == last_ || request_.keeps_interior.contains(run) ||
           request_.kept_interior.contains(value);
  }

  /// Small outputs that spare the recomputation of a node a pass.
  void keep_statistics(Node& node) {
    for (int output : node.op().kept_outputs) {
      if (!kept_is_final_) kept_.insert(node.output(output));
      if (asked_ != nullptr) asked_->insert(node.output(output));
    }
  }

  // ---- The forward pass.

  void write_forward() {
    std::vector<NodeId> roots;
    for (const Value& value : kept_) roots.push_back(value.node().id());
    for (const CycleFetch& fetch : request_.fetches) {
      if (fetch.run == kForwardPass) roots.push_back(fetch.value.node().id());
    }
    for (Operation target : request_.training) {
      if (map_.is_forward(target.node().id())) roots.push_back(target.node().id());
    }
    for (NodeId id : order_) {
      if (map_.is_forward(id)) continue;
      for (const Node* control : graph_.graph().node(id).control_inputs()) {
        if (map_.is_forward(control->id())) roots.push_back(control->id());
      }
    }
    const std::vector<bool> wanted = forward_closure(std::move(roots));
    for (SectionIndex section = 0; section <= last_; ++section) {
      begin_pass(Pass::Kind::forward, section);
      begin_context();
      for (NodeId id : order_) {
        if (wanted[id] && map_.section[id] == section) emit_forward(id);
      }
      if (section < last_) continue;
      for (NodeId id : order_) {
        if (wanted[id] && map_.section[id] == kOutside && !graph_.graph().node(id).op().is_brought_in())
          emit_forward(id);
      }
    }
    for (std::size_t i = 0; i < request_.fetches.size(); ++i) {
      if (request_.fetches[i].run == kForwardPass) emit_fetch(i);
    }
  }

  /// The nodes to compute for `pending`: what they read and wait for, as far as it is not brought in.
  std::vector<bool> forward_closure(std::vector<NodeId> pending) const {
    std::vector<bool> wanted(needed_.size(), false);
    while (!pending.empty()) {
      const NodeId id = pending.back();
      pending.pop_back();
      const Node& node = graph_.graph().node(id);
      if (wanted[id] || !needed_[id] || node.op().is_given()) continue;
      wanted[id] = true;
      for (const Value& input : graph_.reads(id)) pending.push_back(input.node().id());
      for (const Node* control : node.control_inputs()) pending.push_back(control->id());
    }
    return wanted;
  }

  /// Emits a forward node with what it reads, and waits for, of nodes outside, unless it has been emitted.
  void emit_forward(NodeId id) {
    if (done_forward_.contains(id)) return;
    for (const Node* control : graph_.graph().node(id).control_inputs()) {
      const bool outside = map_.section[control->id()] == kOutside && needed_[control->id()];
      if (outside && !control->op().is_given()) emit_forward(control->id());
    }
    for (const Value& value : graph_.reads(id)) {
      const NodeId maker = value.node().id();
      if (is_variable(value)) continue;
      if (value.node().op().is_brought_in()) {
        bring_in(maker);
      } else if (map_.section[maker] == kOutside) {
        emit_forward(maker);
      }
    }
    done_forward_.insert(id);
    if (is_step(graph_.graph().node(id))) emit({.kind = StepKind::compute, .node = id, .pass = current_pass()});
  }

  // ---- Backward runs.

  void write_backward(SectionIndex run) {
    const Run plan = plan_run(run);
    // The last section's backward run follows its forward at once: what was brought in for it is still there.
    if (run != last_ || kept_is_final_) begin_context();
    // The last section is not run forward again: what a fetch alone needs of it belongs to its backward run.
    const bool again = run != last_ && !plan.recomputed.empty();
    begin_pass(again ? Pass::Kind::recompute : Pass::Kind::backward, run);
    for (NodeId id : plan.recomputed) emit_recomputed(id);
    if (again) begin_pass(Pass::Kind::backward, run);
    const std::size_t first = list_.instructions.size();
    for (std::size_t i = 0; i < request_.fetches.size(); ++i) {
      const CycleFetch& fetch = request_.fetches[i];
      const NodeId id = fetch.value.node().id();
      const bool there = map_.is_forward(id) || map_.backward_run[id] > run;
      if (run_of(fetch) == run && there) emit_fetch(i);
    }
    std::vector<NodeId> updates;
    for (NodeId id : plan.backward) {
      bring_in_reads(id);
      if (graph_.graph().node(id).op().is_update()) {
        updates.push_back(id);
        continue;
      }
      emit({.kind = StepKind::compute, .node = id, .pass = current_pass()});
      emit_fetches_of(id, run);
    }
    for (NodeId id : updates) insert_update(id, first);
  }

  void emit_recomputed(NodeId id) {
    Node& node = graph_.graph().node(id);
    bring_in_reads(id);
    const auto& kept_outputs = node.op().kept_outputs;
    const bool executed_before = kept_is_final_ ? !fetch_only_.contains(id) : done_forward_.contains(id);
    const bool replay = executed_before && std::all_of(kept_outputs.begin(), kept_outputs.end(),
                                                       [&](int output) { return kept_.contains(node.output(output)); });
    emit({.kind = StepKind::compute, .node = id, .pass = current_pass(), .replay = replay});
  }

  void bring_in_reads(NodeId id) {
    for (const Value& value : graph_.reads(id)) {
      if (value.node().op().is_brought_in()) bring_in(value.node().id());
    }
  }

  /// Puts an update just behind the last instruction of this run that it must follow: what it reads, readers of the
  /// variables that it changes, earlier updates of them.
  void insert_update(NodeId id, std::size_t first) {
    const Node& node = graph_.graph().node(id);
    std::set<NodeId> changed;
    for (int index : node.op().updated_inputs) changed.insert(node.inputs()[index].node().id());
    std::size_t position = first;
    for (std::size_t i = first; i < list_.instructions.size(); ++i) {
      if (must_follow(node, changed, list_.instructions[i])) position = i + 1;
    }
    const Instruction update{.kind = StepKind::compute, .node = id, .pass = current_pass()};
    list_.instructions.insert(list_.instructions.begin() + static_cast<std::ptrdiff_t>(position), update);
  }

  bool must_follow(const Node& update, const std::set<NodeId>& changed, const Instruction& instruction) const {
    if (instruction.kind == StepKind::fetch || instruction.kind == StepKind::hold)
      return changed.contains(instruction.fetched.node().id());
    for (const Value& value : graph_.reads(update.id())) {
      if (value.node().id() == instruction.node) return true;
    }
    const auto waits_for = [&](const Node* node) { return node->id() == instruction.node; };
    if (std::ranges::any_of(update.control_inputs(), waits_for)) return true;
    if (instruction.kind != StepKind::compute) return false;
    const auto is_changed = [&](const Value& value) { return changed.contains(value.node().id()); };
    if (std::ranges::any_of(graph_.reads(instruction.node), is_changed)) return true;
    const Node& other = graph_.graph().node(instruction.node);
    return std::any_of(other.op().updated_inputs.begin(), other.op().updated_inputs.end(),
                       [&](int index) { return changed.contains(other.inputs()[index].node().id()); });
  }

  // ---- Instructions.

  void begin_pass(Pass::Kind kind, SectionIndex section) { list_.passes.push_back({kind, section}); }
  int current_pass() const { return static_cast<int>(list_.passes.size()) - 1; }
  /// Forgets what has been brought in: it is brought in again when it is read.
  void begin_context() { brought_in_.clear(); }
  void emit(Instruction instruction) { list_.instructions.push_back(std::move(instruction)); }

  void bring_in(NodeId id) {
    if (!brought_in_.insert(id).second) return;
    const bool fed = graph_.graph().node(id).op().is_placeholder();
    emit({.kind = fed ? StepKind::feed : StepKind::compute,
          .node = id,
          .pass = current_pass(),
          .replay = fed && fed_before_[id]});
    fed_before_[id] = true;
  }

  void emit_fetch(std::size_t index) {
    const Value value = request_.fetches[index].value;
    if (value.node().op().is_brought_in()) bring_in(value.node().id());
    emit({.kind = StepKind::fetch, .fetched = value, .fetch_slot = static_cast<int>(index), .pass = current_pass()});
  }

  void emit_fetches_of(NodeId id, SectionIndex run) {
    for (std::size_t i = 0; i < request_.fetches.size(); ++i) {
      const CycleFetch& fetch = request_.fetches[i];
      if (run_of(fetch) == run && fetch.value.node().id() == id) emit_fetch(i);
    }
  }

  void hold_to_end() {
    for (const Value& value : request_.held.until_end) {
      emit({.kind = StepKind::hold, .fetched = value, .pass = current_pass()});
    }
  }

  const ConcreteGraph& graph_;
  const CycleRequest& request_;
  std::vector<bool> needed_;
  std::vector<NodeId> order_;
  std::vector<int> place_;  // in order_, by node
  SectionMap map_;
  SectionIndex last_ = 0;

  std::set<Value> kept_;              // forward values that are kept from the forward pass to the backward runs
  std::set<Value>* asked_ = nullptr;  // while set, collects which of them are asked for
  bool kept_is_final_ = false;        // the forward pass is over: what is not kept is computed again
  std::set<NodeId> fetch_only_;       // forward nodes that only fetches of backward runs need

  InstructionList list_;
  std::set<NodeId> done_forward_;
  std::set<NodeId> brought_in_;
  std::vector<bool> fed_before_;
};

}  // namespace

CycleInstructions write_section_schedule(const ConcreteGraph& graph, const CycleRequest& request) {
  return CycleWriter(graph, request).full_cycle();
}

InstructionList write_backward_half(const ConcreteGraph& graph, const CycleRequest& request,
                                    const std::vector<EntryValue>& entries) {
  return CycleWriter(graph, request).backward_half(entries);
}

}  // namespace sectionflow

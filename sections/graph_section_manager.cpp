#include "sections/graph_section_manager.h"

#include <algorithm>
#include <exception>

#include "base/error.h"
#include "base/log.h"
#include "graph/ops/basic.h"
#include "graph/ops/global_norm.h"
#include "graph/ops/update.h"

namespace sectionflow {

SectionScope::SectionScope(GraphSectionManager& manager, GraphSection& section, GraphScope group)
    : manager_(&manager), section_(&section), group_(std::move(group)), exceptions_(std::uncaught_exceptions()) {}

SectionScope::SectionScope(SectionScope&& other) noexcept
    : manager_(std::exchange(other.manager_, nullptr)),
      section_(other.section_),
      group_(std::move(other.group_)),
      exceptions_(other.exceptions_) {}

SectionScope::~SectionScope() {
  if (manager_ == nullptr) return;
  manager_->open_ = nullptr;
  section_->broken_ = std::uncaught_exceptions() > exceptions_;
}

GraphSectionManager::GraphSectionManager(Graph& graph) : graph_(&graph) {}

SectionScope GraphSectionManager::new_section(std::string name) {
  const std::string number = "section " + std::to_string(sections_.size());
  const std::string label = name.empty() ? number : number + " '" + name + "'";
  if (name.empty()) name = number;
  SF_CHECK(!prepared_, ArgumentError, "new_section('", name,
           "') after prepare_training(); make all sections before it");
  SF_CHECK(open_ == nullptr, ArgumentError, "new_section('", name, "') inside section '", open_ ? open_->name() : "",
           "'; sections do not nest: end the scope of the first");
  for (const auto& other : sections_) {
    SF_CHECK(other->name() != name, ArgumentError, "new_section('", name, "'): section ", other->index(),
             " has that name already");
  }
  const int index = static_cast<int>(sections_.size());
  sections_.emplace_back(new GraphSection(*this, *graph_, index, graph_->new_group(label), std::move(name)));
  open_ = sections_.back().get();
  runs_.emplace_back();
  return {*this, *open_, graph_->enter_group(open_->group())};
}

void GraphSectionManager::check_can_train() const {
  SF_CHECK(open_ == nullptr, ArgumentError, "add_training_ops inside section '", open_ ? open_->name() : "",
           "'; end its scope first");
  SF_CHECK(training_.empty(), ArgumentError, "add_training_ops was called before; a manager trains one loss");
  SF_CHECK(!sections_.empty(), ArgumentError, "add_training_ops: there is no section; open one with new_section()");
}

void GraphSectionManager::check_training(Value trained, const TrainingOptions& options) const {
  SF_CHECK(&trained.graph() == graph_, ArgumentError, "add_training_ops: '", trained.name(),
           "' does not belong to the graph of the section manager");
  if (options.clip_norm) check_max_norm(*options.clip_norm, "add_training_ops");
  if (!options.global_step) return;
  const Value step = *options.global_step;
  SF_CHECK(&step.graph() == graph_ && is_variable(step) && step.type() == (TensorType{Dtype::i64, {}}), ArgumentError,
           "add_training_ops: global_step '", step.name(), "' is ", step.type().text(),
           "; wanted a variable i64[] of the section manager's graph");
}

std::vector<SectionTraining> GraphSectionManager::add_training_ops(const Optimizer& optimizer, Value loss,
                                                                   const TrainingOptions& options) {
  check_can_train();
  check_training(loss, options);
  return add_training_ops(optimizer, compute_gradients(loss, options.variables), options);
}

std::vector<SectionTraining> GraphSectionManager::add_training_ops(const Optimizer& optimizer,
                                                                   const std::vector<GradientAndVariable>& gradients,
                                                                   const TrainingOptions& options) {
  check_can_train();
  for (const GradientAndVariable& pair : gradients) check_training(pair.variable, options);
  auto applied = options.clip_norm ? clip_by_global_norm(gradients, *options.clip_norm).gradients : gradients;
  training_ = apply_gradients(optimizer, applied);
  gradients_ = std::move(applied);
  if (options.global_step) {
    const auto phase = graph_->enter_phase(Phase::training);
    training_.push_back(assign_add(*options.global_step, fill(*graph_, {}, 1, Dtype::i64, "one_cycle")));
  }
  take_update_operations();
  verbose_ = options.verbose;
  keep_summaries_ = options.summaries;
  map_graph();
  return count_training();
}

/// Trains with what the collection "update_operations" holds by now.
void GraphSectionManager::take_update_operations() {
  for (Operation update : graph_->operations(kUpdateOperations)) {
    if (std::find(training_.begin(), training_.end(), update) == training_.end()) training_.push_back(update);
  }
  // The updates of each section are to be found anew.
  map_ = {};
}

std::vector<SectionTraining> GraphSectionManager::count_training() const {
  std::vector<SectionTraining> found(sections_.size());
  const auto updates = graph_->operations(kUpdateOperations);
  const auto applications = graph_->operations(kTrainingOperations);
  for (std::size_t k = 0; k < sections_.size(); ++k) {
    for (Operation operation : section_training_[k]) {
      const bool is_extra = std::find(updates.begin(), updates.end(), operation) != updates.end();
      const bool applies = std::any_of(gradients_.begin(), gradients_.end(), [&](const GradientAndVariable& pair) {
        const auto& inputs = operation.node().inputs();
        return !inputs.empty() && inputs[0] == pair.variable &&
               std::find(inputs.begin(), inputs.end(), pair.gradient) != inputs.end();
      });
      if (is_extra) ++found[k].update_operations;
      if (applies && !is_extra) ++found[k].gradient_applications;
    }
    LOG_IF(INFO, verbose_) << "Section " << k << ": " << found[k].gradient_applications << " gradient applications, "
                           << found[k].update_operations << " update operations";
  }
  return found;
}

/// All nodes but those that give variables their initial values.
std::vector<bool> GraphSectionManager::counted_nodes() const {
  std::vector<bool> counted(static_cast<std::size_t>(graph_->num_nodes()), true);
  for (NodeId id = 0; id < graph_->num_nodes(); ++id) {
    Node& node = graph_->node(id);
    if (node.op().name == "variable") counted[initializer_of(node.output()).node().id()] = false;
  }
  return counted;
}

void GraphSectionManager::map_graph() const {
  const bool is_current = map_.section.size() == static_cast<std::size_t>(graph_->num_nodes()) &&
                          map_.num_sections == static_cast<int>(sections_.size()) &&
                          mapped_control_edges_ == graph_->num_control_edges();
  if (is_current) return;
  const std::vector<bool> counted = counted_nodes();
  std::vector<GroupId> groups;
  for (const auto& section : sections_) groups.push_back(section->group());
  SectionMap map = map_sections(*graph_, groups, counted, [&](NodeId id) { return possible_reads(graph_->node(id)); });
  // What it refuses must be refused the next time too: nothing is taken over before.
  if (prepared_) boundaries_ = section_boundaries(*graph_, map, counted);
  map_ = std::move(map);
  mapped_control_edges_ = graph_->num_control_edges();
  section_training_.assign(sections_.size(), {});
  for (Operation operation : training_) {
    section_training_[static_cast<std::size_t>(map_.backward_run[operation.node().id()])].push_back(operation);
  }
}

void GraphSectionManager::prepare_training() {
  SF_CHECK(!sections_.empty(), ArgumentError, "prepare_training: there is no section; open one with new_section()");
  SF_CHECK(open_ == nullptr, ArgumentError, "prepare_training: section '", open_ ? open_->name() : "",
           "' is still open; end its scope first");
  SF_CHECK(!training_.empty(), ArgumentError, "prepare_training: nothing to train; call add_training_ops first");
  for (const auto& section : sections_) {
    SF_CHECK(!section->broken_, ArgumentError, "prepare_training: section '", section->name(),
             "' was left by an exception while it was built; build the graph anew");
    LOG_IF(WARNING, section->operations().empty()) << "section '" << section->name() << "' is empty";
  }
  take_update_operations();
  map_graph();
  boundaries_ = section_boundaries(*graph_, map_, counted_nodes());
  prepared_ = true;
}

void GraphSectionManager::check_prepared(const char* call) const {
  SF_CHECK(prepared_, ArgumentError, call, " before prepare_training(); call manager.prepare_training() first");
}

SectionIndex GraphSectionManager::evaluated_in(Value fetch) const {
  check_prepared("evaluated_in()");
  SF_CHECK(fetch.valid() && &fetch.graph() == graph_, ArgumentError, "fetch '", fetch.valid() ? fetch.name() : "",
           "' does not belong to the graph of the section manager");
  (void)fetch.type();
  map_graph();
  return evaluation_run(map_, fetch);
}

void GraphSectionManager::check_session(const Session& session) const {
  SF_CHECK(&session.graph() == graph_, ArgumentError,
           "the session was made for another graph than the section manager");
}

std::vector<CycleFetch> GraphSectionManager::place_fetches(const Session& session,
                                                           const std::vector<Value>& fetches) const {
  check_session(session);
  std::vector<CycleFetch> placed;
  for (const Value& fetch : fetches) placed.push_back({fetch, evaluated_in(fetch)});
  return placed;
}

CycleRequest GraphSectionManager::request_for(const std::vector<CycleFetch>& fetches) const {
  CycleRequest request{.groups = {}, .training = training_, .fetches = fetches, .held = {}};
  for (const auto& section : sections_) {
    request.groups.push_back(section->group());
    const auto& feed = section->feed_.current();
    const auto& cache = section->cache_.current();
    request.held.until_backward.insert(request.held.until_backward.end(), feed.begin(), feed.end());
    request.held.until_end.insert(request.held.until_end.end(), cache.begin(), cache.end());
  }
  return request;
}

Program& GraphSectionManager::cycle_program(Session& session, const CycleRequest& request, const Signature& signature) {
  // A graph may have several managers; their sections differ.
  std::string key = "cycle";
  for (GroupId group : request.groups) key += text_of(" g", group);
  const auto add = [&](const char* mark, Value value) {
    key += mark + std::to_string(value.node().id()) + ":" + std::to_string(value.output());
  };
  for (const CycleFetch& fetch : request.fetches) add((" @" + std::to_string(fetch.run) + " ").c_str(), fetch.value);
  for (const Value& value : request.held.until_backward) add(" b", value);
  for (const Value& value : request.held.until_end) add(" e", value);
  return session.program(key + " | " + signature.text(), signature, request.fetches.size(),
                         [&](const ConcreteGraph& graph) { return write_section_schedule(graph, request); });
}

ProgramReport GraphSectionManager::plan(Session& session, const std::vector<Value>& fetches, const FeedTypes& feeds) {
  check_prepared("plan");
  const auto placed = place_fetches(session, with_summaries(fetches));
  return cycle_program(session, request_for(placed), signature_of(*graph_, feeds)).report;
}

/// What a full cycle fetches: beside the caller's fetches the gradients of which summaries are kept.
std::vector<Value> GraphSectionManager::with_summaries(std::vector<Value> fetches) const {
  if (!keep_summaries_) return fetches;
  for (const GradientAndVariable& pair : gradients_) fetches.push_back(pair.gradient);
  return fetches;
}

std::vector<HostTensor> GraphSectionManager::full_cycle(Session& session, const std::vector<Value>& fetches,
                                                        const Feeds& feeds, const CycleOptions& options) {
  check_prepared("run_full_cycle");
  const auto placed = place_fetches(session, with_summaries(fetches));
  Program& program = cycle_program(session, request_for(placed), signature_of(*graph_, feeds));
  auto fetched = session.play(program, feeds, play_options(options));
  count_runs(program.schedule, 0, static_cast<StepIndex>(program.schedule.steps.size()));
  forget_next_cycle_choices();
  if (keep_summaries_) {
    summaries_.clear();
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      summaries_.push_back({gradients_[i].variable.name(), histogram_of(fetched[fetches.size() + i].values<float>())});
    }
    fetched.resize(fetches.size());
  }
  return fetched;
}

std::vector<HostTensor> GraphSectionManager::forward_pass(Session& session, const std::vector<Value>& fetches,
                                                          const Feeds& feeds, const CycleOptions& options) {
  check_prepared("run_forward");
  std::vector<CycleFetch> placed = place_fetches(session, fetches);
  for (CycleFetch& fetch : placed) {
    SF_CHECK(map_.is_forward(fetch.value.node().id()), ArgumentError, "run_forward: fetch '", fetch.value.name(),
             "' is computed in a backward run; fetch it from run_backward or run_full_cycle");
    fetch.run = kForwardPass;
  }
  Program& program = cycle_program(session, request_for(placed), signature_of(*graph_, feeds));
  auto fetched = session.play_forward_half(program, feeds, play_options(options));
  forward_ = &program;
  count_runs(program.schedule, 0, program.schedule.half);
  return fetched;
}

std::vector<CycleFetch> GraphSectionManager::place_backward_fetches(
    const Session& session, const std::vector<std::vector<Value>>& fetches) const {
  const int last = static_cast<int>(sections_.size()) - 1;
  SF_CHECK(fetches.size() <= sections_.size(), ArgumentError, "run_backward: fetches for ", fetches.size(),
           " sections; there are ", sections_.size());
  std::vector<CycleFetch> placed;
  for (int k = 0; k < static_cast<int>(fetches.size()); ++k) {
    for (CycleFetch fetch : place_fetches(session, fetches[static_cast<std::size_t>(k)])) {
      const NodeId id = fetch.value.node().id();
      const SectionIndex earliest = map_.is_forward(id) ? last : map_.backward_run[id];
      SF_CHECK(k <= earliest, ArgumentError, "run_backward: '", fetch.value.name(),
               "' is fetched from the run of section ", k, ", but is first there in that of section ", earliest);
      // A variable is read before any update.
      fetch.run = is_variable(fetch.value) ? last : k;
      placed.push_back(fetch);
    }
  }
  return placed;
}

/// The backward half with fetches that were unknown when its forward half ran: it begins with what that has left.
Program& GraphSectionManager::backward_program(Session& session, const Program& forward,
                                               const std::vector<CycleFetch>& fetches) {
  std::vector<EntryValue> entries;
  std::string key = "backward half";
  const auto add = [&key](const char* mark, Value value, std::size_t number) {
    key +=
        mark + std::to_string(value.node().id()) + ":" + std::to_string(value.output()) + "@" + std::to_string(number);
  };
  const Schedule& schedule = forward.schedule;
  for (std::size_t i = 0; i < schedule.buffers.size(); ++i) {
    const Buffer& buffer = schedule.buffers[i];
    const bool crosses = buffer.life.first < schedule.half && buffer.life.last >= schedule.half;
    if (!crosses) continue;
    const auto storage = static_cast<std::size_t>(forward.storage.storage_of_buffer[i]);
    entries.push_back({buffer.value, forward.plan.offsets[storage], buffer.other_names});
    add(" ", buffer.value, entries.back().offset);
  }
  for (const CycleFetch& fetch : fetches) add(" f", fetch.value, static_cast<std::size_t>(fetch.run));
  const CycleRequest request = request_for(fetches);
  const Signature& signature = forward.signature;
  return session.program(key + " | " + signature.text(), signature, fetches.size(),
                         [&](const ConcreteGraph& graph) { return write_backward_half(graph, request, entries); });
}

std::vector<std::vector<HostTensor>> GraphSectionManager::backward_pass(Session& session,
                                                                        const std::vector<std::vector<Value>>& fetches,
                                                                        const CycleOptions& options) {
  check_prepared("run_backward");
  check_session(session);
  const Program* forward = session.pending();
  SF_CHECK(forward != nullptr, ArgumentError, "run_backward: no forward pass is pending; call run_forward first");
  SF_CHECK(forward == forward_, ArgumentError,
           "run_backward: the pending forward pass was run by another section manager");
  const std::vector<CycleFetch> placed = place_backward_fetches(session, fetches);
  Program* instead = placed.empty() ? nullptr : &backward_program(session, *forward, placed);
  const Schedule& played = instead != nullptr ? instead->schedule : forward->schedule;
  const StepIndex first = instead != nullptr ? 0 : played.half;
  auto flat = session.play_backward_half(instead, play_options(options));
  count_runs(played, first, static_cast<StepIndex>(played.steps.size()));
  forget_next_cycle_choices();

  std::vector<std::vector<HostTensor>> result(fetches.size());
  std::size_t next = 0;
  for (std::size_t k = 0; !placed.empty() && k < fetches.size(); ++k) {
    for (std::size_t i = 0; i < fetches[k].size(); ++i) result[k].push_back(std::move(flat[next++]));
  }
  return result;
}

void GraphSectionManager::count_runs(const Schedule& schedule, StepIndex first, StepIndex last) {
  for (StepIndex index = first; index < last; ++index) {
    const int pass = schedule.steps[static_cast<std::size_t>(index)].pass;
    if (index > first && schedule.steps[static_cast<std::size_t>(index) - 1].pass == pass) continue;
    const Pass& begun = schedule.passes[static_cast<std::size_t>(pass)];
    SectionRuns& runs = runs_[static_cast<std::size_t>(begun.section)];
    ++(begun.kind == Pass::Kind::backward ? runs.backward : runs.forward);
  }
}

void GraphSectionManager::forget_next_cycle_choices() {
  for (const auto& section : sections_) {
    section->feed_.has_next = section->cache_.has_next = false;
  }
}

}  // namespace sectionflow

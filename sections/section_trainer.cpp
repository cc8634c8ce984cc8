#include "sections/section_trainer.h"

#include <glog/logging.h>

#include <algorithm>

#include "base/error.h"
#include "graph/nodes/reduce.h"
#include "graph/nodes/shards.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "graph/ops/update.h"
#include "sections/cycle_notes.h"
#include "sections/section_policies.h"

namespace sectionflow {

SectionTrainer::SectionTrainer(Graph& graph, Where where) : graph_(&graph), claim_(graph.claim_sections(where)) {}

void SectionTrainer::check_can_train() const {
  SF_CHECK_CODE(open_ == nullptr, ArgumentError, ErrorCode::open_section, "add_training_ops inside section '",
                open_->name(), "'", earlier(open_->place()), hint("end its scope first"));
  SF_CHECK_CODE(training_.empty(), ArgumentError, ErrorCode::trained_twice,
                "add_training_ops was called before; a manager trains one loss",
                hint("train the weighted sum of several losses"));
  SF_CHECK_CODE(!sections_.empty() || cuts_, ArgumentError, ErrorCode::nothing_to_train,
                "add_training_ops: there is no section",
                hint("open one with new_section(), or have them placed by place_cuts()"));
  check_whole("add_training_ops");
}

/// An exception may have left a section with half a model in it.
void SectionTrainer::check_whole(const char* call) const {
  for (const auto& section : sections_) {
    SF_CHECK_CODE(!section->broken_, ArgumentError, ErrorCode::broken_section, call, ": section '", section->name(),
                  "' was left by an exception while it was built", earlier(section->place()),
                  hint("build the graph anew"));
  }
}

void SectionTrainer::check_training(Value trained, const TrainingOptions& options) const {
  SF_CHECK(&trained.graph() == graph_, ArgumentError, "add_training_ops: '", trained.name(),
           "' does not belong to the graph of the section manager");
  if (options.clip_norm) check_max_norm(*options.clip_norm, "add_training_ops");
  check_options("add_training_ops", options.sections);
  if (!options.global_step) return;
  const Value step = *options.global_step;
  SF_CHECK(&step.graph() == graph_ && is_variable(step) && step.type() == (TensorType{Dtype::i64, {}}), ArgumentError,
           "add_training_ops: global_step '", step.name(), "' is ", step.type().text(),
           "; wanted a variable i64[] of the section manager's graph");
}

std::vector<SectionTraining> SectionTrainer::add_training_ops(const Optimizer& optimizer, Value loss,
                                                              const TrainingOptions& options, Where where) {
  return add_training_ops({ParameterGroup{.optimizer = optimizer}}, loss, options, where);
}

std::vector<SectionTraining> SectionTrainer::add_training_ops(const std::vector<ParameterGroup>& groups, Value loss,
                                                              const TrainingOptions& options, Where where) {
  return user_call(where, [&] {
    check_can_train();
    check_training(loss, options);
    return graph_->all_or_nothing([&] {
      const UpdatesOf updates = [&](const UpdateOptions& asked) {
        return training_updates(groups, loss, asked, options.variables, where);
      };
      if (sections_.empty()) make_placed_sections(updates, loss, options);
      auto found = train_with(updates, options);
      graph_->add_to_collection(kSectionLoss, loss);
      loss_ = loss;
      return found;
    });
  });
}

std::vector<SectionTraining> SectionTrainer::add_training_ops(const Optimizer& optimizer,
                                                              const std::vector<GradientAndVariable>& gradients,
                                                              const TrainingOptions& options, Where where) {
  return user_call(where, [&] {
    check_can_train();
    SF_CHECK_CODE(!sections_.empty(), ArgumentError, ErrorCode::cuts_and_scopes,
                  "add_training_ops: the gradients were made before place_cuts() has placed sections, which gradients "
                  "belong to",
                  earlier(cuts_->at.text()), hint("give the loss instead, or open sections with new_section()"));
    for (const GradientAndVariable& pair : gradients) check_training(pair.variable, options);
    return graph_->all_or_nothing([&] {
      return train_with(
          [&](const UpdateOptions& updates) {
            return training_updates({ParameterGroup{.optimizer = optimizer}}, gradients, updates, where);
          },
          options);
    });
  });
}

UpdateOptions SectionTrainer::update_options(const TrainingOptions& options) {
  return {.global_step = options.global_step,
          .clip_norm = options.clip_norm,
          .micro_batches = options.micro_batches,
          .ranks = options.ranks,
          .distribution = options.distribution,
          .server = options.server,
          .skip_non_finite = options.skip_non_finite,
          .average = options.average};
}

std::vector<SectionTraining> SectionTrainer::train_with(const UpdatesOf& updates, const TrainingOptions& options) {
  when_rolled_back([this] { forget_training(); });
  try {
    updates_ = updates(update_options(options));
    training_.change() = updates_.operations;
    note_training();
    take_update_operations();
    verbose_ = options.verbose;
    keep_summaries_ = options.summaries;
    default_options_ = options.sections;
    default_source_ = {};
    map_graph();
    return count_training();
  } catch (...) {
    forget_training();
    throw;
  }
}

/// As before add_training_ops.
void SectionTrainer::forget_training() {
  training_.change().clear();
  updates_ = {};
  loss_ = {};
  map_ = {};
  boundaries_.clear();
  section_training_.clear();
  verbose_ = keep_summaries_ = prepared_ = false;
  prepared_at_ = {};
  default_options_ = {};
  default_source_ = {};
}

/// What the manager keeps of the graph must not outlive it: `undo` is called when a change of the graph that is open
/// now fails, unless the manager is gone by then.
void SectionTrainer::when_rolled_back(std::function<void()> undo) const {
  graph_->on_roll_back([alive = std::weak_ptr(identity_), undo = std::move(undo)] {
    if (!alive.expired()) undo();
  });
}

/// Trains with what the collection "update_operations" holds by now.
void SectionTrainer::take_update_operations() {
  std::vector<Operation>& training = training_.change();
  const std::size_t num_known = training.size();
  for (Operation update : graph_->operations(kUpdateOperations)) {
    if (std::find(training.begin(), training.end(), update) == training.end()) training.push_back(update);
  }
  if (training.size() > num_known) ++num_choices_;
  // The updates of each section are to be found anew.
  map_ = {};
}

std::vector<SectionTraining> SectionTrainer::count_training() const {
  std::vector<SectionTraining> found(sections_.size());
  const auto updates = graph_->operations(kUpdateOperations);
  const auto applications = graph_->operations(kTrainingOperations);
  const std::vector<GradientAndVariable>& trained = updates_.gradients;
  for (std::size_t k = 0; k < sections_.size(); ++k) {
    for (Operation operation : section_training_[k]) {
      const bool is_extra = std::find(updates.begin(), updates.end(), operation) != updates.end();
      const bool is_application = std::find(applications.begin(), applications.end(), operation) != applications.end();
      const bool applies = std::any_of(trained.begin(), trained.end(), [&](const GradientAndVariable& pair) {
        const auto& inputs = operation.node().inputs();
        if (!is_application || inputs.empty()) return false;
        return inputs[0] == updated_for(pair.variable);
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
std::vector<bool> SectionTrainer::counted_nodes() const {
  std::vector<bool> counted(static_cast<std::size_t>(graph_->num_nodes()), true);
  for (NodeId id = 0; id < graph_->num_nodes(); ++id) {
    Node& node = graph_->node(id);
    if (node.op().is_variable() && constant_content(node.output()) == nullptr)
      counted[initializer_of(node.output()).node().id()] = false;
  }
  return counted;
}

/// Swap nodes belong to whole-graph training: sections decide for themselves what leaves the device.
void SectionTrainer::check_not_swapped() const {
  const Node* swap = nullptr;
  for (NodeId id = 0; id < graph_->num_nodes() && swap == nullptr; ++id) {
    if (graph_->node(id).op().movement != Movement::none) swap = &graph_->node(id);
  }
  SF_CHECK_CODE(swap == nullptr && graph_->num_edits() == 0, ArgumentError, ErrorCode::swapped_graph,
                "the graph is edited for whole-graph swapping",
                swap == nullptr ? std::string() : text_of(" (", swap->label(), ")"), "; sections swap by themselves",
                Fact{"swap", swap == nullptr ? std::string() : swap->place()},
                hint("leave Lms and swap nodes out, or train the whole graph with a session"));
}

void SectionTrainer::map_graph() const {
  const bool is_current = map_.section.size() == static_cast<std::size_t>(graph_->num_nodes()) &&
                          map_.num_sections == static_cast<int>(sections_.size()) &&
                          mapped_generation_ == graph_->generation() && graph_->num_edits() == 0;
  if (is_current) return;
  check_not_swapped();
  const std::vector<bool> counted = counted_nodes();
  std::vector<GroupId> groups;
  for (const auto& section : sections_) groups.push_back(section->group());
  SectionMap map = map_sections(*graph_, groups, counted, [&](NodeId id) { return possible_reads(graph_->node(id)); });
  std::vector<SectionBoundary> boundaries;
  if (prepared_) boundaries = section_boundaries(*graph_, map, counted);
  std::vector<std::vector<Operation>> section_training(sections_.size());
  for (Operation operation : training_.list()) {
    section_training[static_cast<std::size_t>(map.backward_run[operation.node().id()])].push_back(operation);
  }
  // What is refused must be refused the next time too: nothing is taken over before all is there.
  if (prepared_) boundaries_ = std::move(boundaries);
  map_ = std::move(map);
  section_training_ = std::move(section_training);
  evaluated_in_.clear();
  mapped_generation_ = graph_->generation();
}

/// What is allowed but seldom meant.
std::vector<std::string> SectionTrainer::unusual() const {
  std::vector<std::string> unusual;
  for (const auto& section : sections_) {
    if (section->operations().empty()) unusual.push_back(section->place() + " is empty: dropped from the plan");
  }
  const std::vector<Operation>& own = training_.list();
  std::vector<Operation> others = graph_->operations(kTrainingOperations);
  std::erase_if(others, [&](Operation each) { return std::find(own.begin(), own.end(), each) != own.end(); });
  if (!others.empty()) {
    unusual.push_back(text_of(
        "the graph has ", others.size(), " training operations that add_training_ops has not made, '",
        others.front().node().name(), "' the first: no cycle runs them, and what slots they have takes memory"));
  }
  if (!loss_.valid()) return unusual;
  const SectionIndex of_loss = map_.section[loss_.node().id()];
  if (of_loss == kOutside) {
    if (!is_made_of_numbers(map_, loss_)) {
      unusual.push_back(
          text_of("the loss '", loss_.name(), "' stands outside of all sections; usually the last one computes it"));
    }
    return unusual;
  }
  std::string later;
  for (std::size_t k = static_cast<std::size_t>(of_loss) + 1; k < sections_.size(); ++k) {
    if (!sections_[k]->operations().empty())
      later += text_of(later.empty() ? "" : ", ", graph_->group_name(sections_[k]->group()));
  }
  if (!later.empty()) {
    unusual.push_back(text_of("the loss '", loss_.name(), "' is in ",
                              sections_[static_cast<std::size_t>(of_loss)]->place(),
                              "; later sections get no gradient: ", later));
  }
  return unusual;
}

std::vector<std::string> SectionTrainer::notes(const Program& program) const {
  std::vector<std::string> notes = program.report.notes;
  if (!cut_note_.empty()) notes.push_back(cut_note_);
  for (std::string& line : cycle_notes(*graph_, map_, program)) notes.push_back(std::move(line));
  for (std::string& line : unusual()) notes.push_back(std::move(line));
  return notes;
}

void SectionTrainer::prepare_training(Where where) {
  user_call(where, [&] {
    SF_CHECK_CODE(!sections_.empty(), ArgumentError, ErrorCode::nothing_to_train,
                  "prepare_training: there is no section",
                  hint(cuts_ ? "call add_training_ops first: it makes those that place_cuts was asked for"
                             : "open one with new_section()"));
    SF_CHECK_CODE(open_ == nullptr, ArgumentError, ErrorCode::open_section, "prepare_training: section '",
                  open_->name(), "' is still open", earlier(open_->place()), hint("end its scope first"));
    check_whole("prepare_training");
    SF_CHECK_CODE(!training_.empty(), ArgumentError, ErrorCode::nothing_to_train, "prepare_training: nothing to train",
                  hint("call add_training_ops first"));
    std::vector<Operation> before = training_.list();
    when_rolled_back([this, before, was_prepared = prepared_, prepared_at = prepared_at_]() mutable {
      training_.change().swap(before);
      // Cycles that were compiled in between are of other updates.
      ++num_choices_;
      map_ = {};
      prepared_ = was_prepared;
      prepared_at_ = prepared_at;
    });
    try {
      take_update_operations();
      map_graph();
      boundaries_ = section_boundaries(*graph_, map_, counted_nodes());
      check_tensor_names("prepare_training", default_options_, default_source_);
      for (const std::string& line : unusual()) LOG(WARNING) << "prepare_training: " << line;
    } catch (...) {
      training_.change().swap(before);
      map_ = {};
      throw;
    }
    prepared_ = true;
    prepared_at_ = where;
    if (verbose_) log_policies();
  });
}

void SectionTrainer::check_prepared(const char* call) const {
  SF_CHECK_CODE(prepared_, ArgumentError, ErrorCode::not_prepared, call, " before prepare_training()",
                hint("call manager.prepare_training() first, once the graph is complete"));
}

SectionIndex SectionTrainer::evaluated_in(Value fetch) const {
  check_prepared("evaluated_in()");
  check_fetches(*graph_, {fetch});
  map_graph();
  if (const auto known = evaluated_in_.find(fetch); known != evaluated_in_.end()) return known->second;
  return evaluated_in_.emplace(fetch, evaluation_run(map_, fetch)).first->second;
}

void SectionTrainer::check_session(const Engine& engine) const {
  SF_CHECK(&engine.graph() == graph_, ArgumentError, "the session was made for another graph than the section manager");
}

std::vector<CycleFetch> SectionTrainer::place_fetches(const Engine& engine, const std::vector<Value>& fetches) const {
  check_session(engine);
  std::vector<CycleFetch> placed;
  for (const Value& fetch : fetches) placed.push_back({fetch, evaluated_in(fetch)});
  return placed;
}

ProgramReport SectionTrainer::plan(Engine& engine, const std::vector<Value>& fetches, const FeedTypes& feeds,
                                   Where where) {
  return user_call(where, [&] {
    const auto inside = engine.enter();
    check_prepared("plan");
    const auto placed = place_fetches(engine, with_summaries(fetches));
    auto [program, report] = fullest_cycle(engine, placed, signature_of(*graph_, feeds));
    report.notes = notes(program);
    if (updates_.micro_batch.valid()) {
      report.notes.push_back(text_of("gradients are summed over micro-batches; planned is ",
                                     program.advances_cycle ? "the last, which applies them" : "one before the last",
                                     ", since the other kind takes no more device memory"));
    }
    return report;
  });
}

/// What a full cycle fetches: beside the caller's fetches the gradients of which summaries are kept.
std::vector<Value> SectionTrainer::with_summaries(std::vector<Value> fetches) const {
  if (!keep_summaries_) return fetches;
  for (const GradientAndVariable& pair : updates_.gradients) fetches.push_back(pair.gradient);
  return fetches;
}

std::vector<HostTensor> SectionTrainer::full_cycle(Engine& engine, const std::vector<Value>& fetches,
                                                   const Feeds& feeds, const CycleOptions& options, Where where) {
  return user_call(where, [&] {
    const auto inside = engine.enter();
    check_prepared("run_full_cycle");
    const auto placed = place_fetches(engine, with_summaries(fetches));
    Executable& program = cycle_program(engine, placed, signature_of(*graph_, feeds));
    auto fetched = engine.execute(program, feeds, execute_options(options));
    count_runs(program, 0, static_cast<StepIndex>(program.schedule.steps.size()));
    forget_next_cycle_choices();
    if (keep_summaries_) {
      summaries_.clear();
      for (std::size_t i = 0; i < updates_.gradients.size(); ++i) {
        summaries_.push_back(
            {updates_.gradients[i].variable.name(), histogram_of(fetched[fetches.size() + i].values<float>())});
      }
      fetched.resize(fetches.size());
    }
    return fetched;
  });
}

void SectionTrainer::count_runs(const Program& program, StepIndex first, StepIndex last) {
  const auto count = [&](StepIndex index) {
    const int pass = program.schedule.steps[static_cast<std::size_t>(index)].pass;
    const Pass& begun = program.schedule.passes[static_cast<std::size_t>(pass)];
    SectionRuns& runs = runs_[static_cast<std::size_t>(begun.section)];
    ++(begun.kind == Pass::Kind::backward ? runs.backward : runs.forward);
  };
  if (first < last) count(first);
  for (StepIndex index : steps_between(program.digest.pass_begins, first + 1, last)) count(index);
}

}  // namespace sectionflow

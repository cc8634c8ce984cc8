// The programs of a session: compiled, kept by keys, and forgotten with the nodes that they compute; and which
// algorithms of libraries their kernels run.

#include <glog/logging.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/random.h"
#include "comm/communicator.h"
#include "runtime/check_placement.h"
#include "runtime/engine.h"
#include "runtime/next_feeds.h"
#include "runtime/pending_half.h"
#include "runtime/swap_engine.h"
#include "schedule/micro_batches.h"
#include "schedule/program_key.h"
#include "schedule/ranks.h"
#include "schedule/training_flag.h"

namespace sectionflow {
namespace {

/// Lets algorithms be tried and timed while kernels are made, until it ends.
class LentTrialMemory {
 public:
  LentTrialMemory(DeviceChoices& choices, const TrialMemory& memory) : choices_(choices) {
    choices_.set_trial_memory(memory);
  }
  ~LentTrialMemory() { choices_.set_trial_memory({}); }
  LentTrialMemory(const LentTrialMemory&) = delete;
  LentTrialMemory& operator=(const LentTrialMemory&) = delete;

 private:
  DeviceChoices& choices_;
};

std::string key_of(const char* kind, const std::vector<Value>& fetches, const std::vector<Operation>& targets,
                   const Signature& signature) {
  ProgramKey key(kind);
  for (const Value& fetch : fetches) key.add(" ", fetch);
  for (const Operation& target : targets) key.add(" !", static_cast<std::uint64_t>(target.node().id()));
  return key.add(" | ").add(signature.text()).text();
}

/// Says of each accumulation whether it is one of those, by the variables that count.
std::function<bool(const MicroBatches&)> is_among(std::set<NodeId> counters) {
  return
      [counters = std::move(counters)](const MicroBatches& each) { return counters.contains(each.index.node().id()); };
}

/// A program by its signature and report, which stay when there is no room for the program itself.
struct FullestProgram {
  Signature signature;
  ProgramReport report;
};

/// Of the programs of an update that which takes the most device memory, of those that do not fit if there are any;
/// with the longest time that any is predicted to take, since which of them is the fullest changes with the budget.
/// Accumulations may end at different times: beside none and all of them, each is the last alone.
FullestProgram fullest_program_of(const Signature& fed, const std::vector<MicroBatches>& accumulations,
                                  const Engine::ProgramOf& program_of) {
  std::vector<std::set<NodeId>> ends = {{}};
  std::set<NodeId> all;
  for (const MicroBatches& each : accumulations) {
    ends.push_back({each.index.node().id()});
    all.insert(each.index.node().id());
  }
  if (accumulations.size() > 1) ends.push_back(std::move(all));
  std::optional<FullestProgram> fullest;
  double longest = 0;
  for (std::set<NodeId>& last : ends) {
    Signature signature = with_micro_batches(fed, accumulations, is_among(std::move(last)));
    const ProgramReport& report = program_of(signature).report;
    longest = std::max(longest, report.predicted_seconds);
    const auto rank = [](const ProgramReport& each) { return std::pair(!each.fits, each.planned_peak_bytes); };
    if (!fullest || rank(report) >= rank(fullest->report)) fullest = {std::move(signature), report};
  }
  fullest->report.predicted_seconds = longest;
  return *std::move(fullest);
}

}  // namespace

/// Whether what is kept by this number is of this node, and not of one that had the number before it.
bool Engine::knows(const Node& node) const {
  const auto id = static_cast<std::size_t>(node.id());
  return id < known_.size() && known_[id] == node.serial();
}

/// Forgets what is known of nodes that were taken out of the graph, whose numbers others have by now, and makes room
/// for what is new.
void Engine::meet_graph() {
  const auto num_nodes = static_cast<std::size_t>(graph_->num_nodes());
  while (!known_.empty() &&
         (known_.size() > num_nodes || !knows(graph_->node(static_cast<NodeId>(known_.size() - 1))))) {
    known_.pop_back();
  }
  if (known_.size() == num_nodes && layout().offsets.size() == num_nodes && executions_.size() == num_nodes) return;
  homes_.meet_graph(known_.size(), num_nodes);
  if (executions_.size() > known_.size()) executions_.resize(known_.size());
  executions_.resize(num_nodes, 0);
  known_.reserve(num_nodes);
  while (known_.size() < num_nodes) known_.push_back(graph_->node(static_cast<NodeId>(known_.size())).serial());
}

ProgramReport Engine::plan(const std::vector<Value>& fetches, const FeedTypes& feeds, const RunOptions& options,
                           Where where) {
  return user_call(where, [&] {
    const auto program_of = [&](const Signature& signature) -> Executable& {
      return whole_graph_program(fetches, signature, options);
    };
    const Signature fed = signature_of(*graph_, feeds);
    return options.targets.empty() ? program_of(fed).report : fullest_program(fed, program_of).report;
  });
}

Executable& Engine::whole_program(const std::vector<Value>& fetches, const FeedTypes& feeds, const RunOptions& options,
                                  Where where) {
  return user_call(where,
                   [&]() -> Executable& { return whole_program_now(fetches, signature_of(*graph_, feeds), options); });
}

/// The program that a run executes now.
Executable& Engine::whole_program_now(const std::vector<Value>& fetches, const Signature& fed,
                                      const RunOptions& options) {
  // Only targets train.
  if (options.targets.empty()) return whole_graph_program(fetches, fed, options);
  return micro_batch_program(
      fed, [&](const Signature& signature) -> Executable& { return whole_graph_program(fetches, signature, options); });
}

Executable& Engine::micro_batch_program(const Signature& fed, const ProgramOf& program_of) {
  const std::vector<MicroBatches> accumulations = micro_batches_of(*graph_);
  if (accumulations.empty()) return program_of(fed);
  std::set<NodeId> last;
  bool begins = false;
  for (const MicroBatches& each : accumulations) {
    const NodeId counter = each.index.node().id();
    const std::int64_t index = read_counter(counter);
    SF_CHECK_CODE(index >= 0 && index < each.count, ArgumentError, ErrorCode::micro_batches, "'", each.index.name(),
                  "' says that ", index, " micro-batches of an update have been taken; wanted 0 to ", each.count - 1,
                  hint("write 0 to it to begin the update again"));
    if (index == each.count - 1) last.insert(counter);
    begins = begins || index == 0;
  }
  const Signature now = with_micro_batches(fed, accumulations, is_among(last));
  Executable& program = program_of(now);
  if (!begins || !program.micro_batch || program.update_can_end) return program;
  const FullestProgram fullest = fullest_program_of(fed, accumulations, program_of);
  // Where none fits, the error is to name what all need.
  if (!fullest.report.fits) throw_budget_error(fullest.report);
  // There may not be room for all of them at once.
  Executable& kept = program_of(now);
  kept.update_can_end = true;
  return kept;
}

Engine::PlannedProgram Engine::fullest_program(const Signature& fed, const ProgramOf& program_of) {
  const std::vector<MicroBatches> accumulations = micro_batches_of(*graph_);
  if (accumulations.empty()) {
    const Executable& program = program_of(fed);
    return {program, program.report};
  }
  FullestProgram fullest = fullest_program_of(fed, accumulations, program_of);
  return {program_of(fullest.signature), std::move(fullest.report)};
}

/// What a variable i64 [] holds; 0 before it has a value.
std::int64_t Engine::read_counter(NodeId variable) const {
  std::int64_t count = 0;
  const auto id = static_cast<std::size_t>(variable);
  if (!initialized_ || !knows(graph_->node(variable)) || !layout().contains(variable)) return count;
  if (layout().has_disk_home(variable)) {
    swaps_->read_home(variable, layout().disk_offsets[id], std::as_writable_bytes(std::span(&count, 1)));
  } else if (layout().has_host_home(variable)) {
    const std::byte* base = swaps_->host_base();
    if (base != nullptr) std::memcpy(&count, base + layout().host_offsets[id], sizeof(count));
  } else if (arena_) {
    const auto entered = device_->enter();
    device_->copy_to_host(&count, arena_->data() + layout().offsets[id], sizeof(count));
  }
  return count;
}

/// Of the random numbers of an execution that begins now: they follow from what the session holds, cycles and
/// micro-batches, and not from what is executed. A run that takes no micro-batch draws what the next one will draw. Of
/// several ranks each takes the micro-batch of its number in every round.
std::uint64_t Engine::random_seed(const Program& program) const {
  if (program.report.initializes) return options_.seed;
  const auto ranks = static_cast<std::uint64_t>(ranks_of(*graph_));
  const auto rank = options_.communicator ? static_cast<std::uint64_t>(options_.communicator->rank()) : 0;
  std::optional<NodeId> counter = program.micro_batch;
  if (!counter) {
    const std::vector<MicroBatches> accumulations = micro_batches_of(*graph_);
    if (accumulations.empty()) return ranks > 1 ? seed_of_micro_batch(options_.seed, rank) : options_.seed;
    counter = accumulations.front().index.node().id();
  }
  const auto index = static_cast<std::uint64_t>(read_counter(*counter));
  return seed_of_micro_batch(options_.seed, ranks > 1 ? index * ranks + rank : index);
}

Executable& Engine::whole_graph_program(const std::vector<Value>& fetches, const Signature& signature,
                                        const RunOptions& options) {
  check_fetches(*graph_, fetches);
  for (const Operation& target : options.targets) {
    SF_CHECK(target.valid() && &target.node().graph() == graph_, ArgumentError, "target '",
             target.valid() ? target.name() : "", "' does not belong to the graph of this session");
  }
  const auto request = [&] { return RunRequest{fetches, options.targets}; };
  return program(key_of("whole", fetches, options.targets, signature), signature, request,
                 [&](PlanningTools& tools) { return build_schedule(tools.graph(), request()); });
}

Executable& Engine::program(const std::string& wanted, const Signature& signature,
                            const std::function<RunRequest()>& request, const InstructionWriter& writer) {
  const auto inside = enter();
  meet_graph();
  if (!initialized_) lay_out_variables();
  // The numbers of nodes, and the edges between them, mean the same in one generation alone.
  std::string key = ProgramKey(wanted).add(" | generation ", graph_->generation()).add(editor_key_).text();
  // Before initialize() the variables have no places that a kept program could rely on.
  Executable* found = initialized_ ? programs_.find(key) : nullptr;
  ProgramPlanner* const planner = planner_ != nullptr ? planner_->planner.get() : nullptr;
  const bool is_due = found != nullptr && planner != nullptr && pending_ == nullptr && planner->is_due(*found);
  if (found != nullptr && !is_due && !has_other_homes(*found)) {
    latest_ = found;
    return *found;
  }
  const auto entered = device_->enter();
  const LentTrialMemory lent(device_->choices(), trial_memory());
  if (is_due && !planner->plan_again(*found)) {
    latest_ = found;
    return *found;
  }
  const RunRequest requested = request();
  std::unique_ptr<Executable> made;
  try {
    made = compiled(requested, signature, writer);
    // A folder that is none, or too full, shows before anything runs.
    if (made->report.fits) swaps_->prepare(*made);
  } catch (const Error& error) {
    if (!is_due) throw;
    // What was executed so far can be executed still.
    planner->undo_plan_again(*found, &error);
    latest_ = found;
    return *found;
  } catch (...) {
    if (is_due) planner->undo_plan_again(*found, nullptr);
    throw;
  }
  Executable& kept = programs_.insert(std::move(key), graph_->generation(), std::move(made), {pending()});
  latest_ = &kept;
  if (is_due) ++statistics_.programs_replanned;
  count_programs();
  return kept;
}

std::unique_ptr<Executable> Engine::compiled(const RunRequest& requested, const Signature& signature,
                                             const InstructionWriter& writer) {
  ProgramPlanner* const planner = planner_ != nullptr ? planner_->planner.get() : nullptr;
  Signature decided = with_training_flag(*graph_, signature, requested);
  // Without a communicator a program is that of the server, which takes the most.
  if (options_.communicator != nullptr) decided.elsewhere = held_elsewhere(*graph_, options_.communicator->rank());
  const ConcreteGraph concrete(*graph_, decided);
  InstructionList written;
  Listed listed = Listed::as_planned;
  double wanted_below = 0;
  std::string told_first;
  const auto write = [&](PlanningTools& tools) {
    tools.is_fitted_later = planner != nullptr;
    tools.only_below = wanted_below;
    tools.told_first = told_first;
    written = writer(tools);
    if (listed == Listed::as_written) return written;
    if (planner != nullptr) return planner->planned(written, tools);
    return edit_instructions_ ? edit_instructions_(written, tools) : written;
  };
  auto best = compiled_with_homes([&](int layout, const TierBudgets& budgets, Listed how, double only_below) {
    listed = how;
    wanted_below = only_below;
    if (homes_.count() > 1)
      told_first = budgets == budgets_ ? text_of("variables' layout ", layout + 1, " of ", homes_.count(), ": ")
                                       : "with any host memory: ";
    auto made = std::make_unique<Executable>(compile_program(concrete, write, requested.fetches.size(),
                                                             homes_.at(layout), *device_,
                                                             {.budgets = budgets,
                                                              .carrier = carrier(),
                                                              .link_bandwidth = options_.link_bandwidth,
                                                              .poison = options_.poison,
                                                              .check = options_.check_schedules,
                                                              .edit_schedule = edit_schedule_}));
    made->variable_layout = layout;
    return made;
  });
  // Where their first values have brought them was not tried first.
  best->layout_then = homes_.is_settled() ? homes_.number() : -1;
  check_placement(*graph_, best->schedule, options_.device);
  best->report.context_bytes = statistics_.context_bytes;
  best->written = std::move(written);
  best->number = num_compiled_++;
  best->generation = graph_->generation();
  best->report.has_disk_homes = may_have_disk_homes();
  best->report.may_swap = planner != nullptr || edit_instructions_ != nullptr;
  return best;
}

CopyCarrier Engine::carrier() const {
  return options_.copy_threads || device_->queues() != nullptr ? CopyCarrier::threads : CopyCarrier::team;
}

PlanningTools Engine::tools_for(const Program& program, const ConcreteGraph& graph) {
  return {graph,     program.schedule.fetches.size(), homes_.at(program.variable_layout),     *device_, budgets_,
          carrier(), options_.link_bandwidth,         options_.poison ? kPoisonGuardBytes : 0};
}

const Executable* Engine::latest_program() const {
  return latest_ != nullptr && latest_->digest.newest.is_in(*graph_) ? latest_ : nullptr;
}

void Engine::check_nodes(const Program& program) const {
  SF_CHECK(program.digest.newest.is_in(*graph_), ArgumentError,
           "the program computes nodes that have since been taken out of the graph, by a call that threw",
           hint("discard a forward half that is pending, and begin the run again"));
  // Places are given by initialize() alone, which keeps no program.
  const NodeId unplaced = program.digest.first_unplaced;
  SF_CHECK_CODE(unplaced < 0, ArgumentError, ErrorCode::not_initialized, "variable '", graph_->node(unplaced).name(),
                "' was made after session.initialize()", Fact{"variable", graph_->node(unplaced).place()},
                hint("make all variables, optimisers included, before it"));
}

void Engine::use_algorithms(const AlgorithmChoices& choices) {
  const auto inside = enter();
  const std::vector<std::string> kept = device_->choices().add(choices);
  if (!kept.empty()) {
    LOG(WARNING) << kept.size() << " of " << choices.algorithms.size()
                 << " stored algorithms are not used, since this process already runs others; results may differ in"
                 << " their last bits from those of the process that stored them; first: " << kept.front();
  }
  const auto strange = std::count_if(choices.algorithms.begin(), choices.algorithms.end(),
                                     [&](const auto& choice) { return !device_->has_problem(choice.first); });
  if (strange > 0) {
    LOG(INFO) << strange << " of " << choices.algorithms.size()
              << " stored algorithms are for other GPUs or libraries than " << device_->name()
              << " has: kept, but not used here";
  }
}

TrialMemory Engine::trial_memory() {
  // Kernels of the CPU try nothing.
  if (device_->queues() == nullptr) return {};
  // Before there is an arena, its bytes may be taken for as long as a trial lasts.
  if (!arena_) return {.most_allocated = budgets_.device};
  next_feeds_->lose();
  std::size_t begin = round_up(layout().end_bytes);
  if (pending_) {
    // What the forward half has left lies below its peak; where that is measured, nobody writes above it.
    if (pending_->is_measured) return {};
    begin = pending()->transient_offset + round_up(pending()->plan.peak_bytes);
  }
  begin = std::min(begin, budgets_.device);
  return {.lent = {arena_->data() + begin, budgets_.device - begin}};
}

}  // namespace sectionflow

// A session of several ranks: that all execute the same, and that none waits for one that has failed.

#include <exception>
#include <ios>
#include <set>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"
#include "device/instruction_set.h"
#include "graph/graph_file.h"
#include "runtime/engine.h"
#include "runtime/executor.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sectionflow {
namespace {

/// "images f32[32,784], labels i32[32]"
std::string feeds_text(const Program& program, const Graph& graph) {
  std::string text;
  for (const auto& [placeholder, shape] : program.signature.shapes) {
    const Node& node = graph.node(placeholder);
    text += text_of(text.empty() ? "" : ", ", node.name(), " ", dtype_name(node.output_types()[0].dtype), shape);
    const auto boolean = program.signature.booleans.find(placeholder);
    if (boolean != program.signature.booleans.end()) text += boolean->second ? " true" : " false";
  }
  return text;
}

/// What a program's updates and communications are made of. Nodes beside these, such as what a rank fetches or has
/// added to its graph, are its own affair.
std::set<NodeId> nodes_in_common(const Program& program, const std::set<NodeId>& updates, const Graph& graph) {
  std::set<NodeId> nodes;
  std::vector<NodeId> pending(updates.begin(), updates.end());
  for (const StepIndex step : program.digest.communications) {
    pending.push_back(program.schedule.steps[static_cast<std::size_t>(step)].node);
  }
  while (!pending.empty()) {
    const NodeId id = pending.back();
    pending.pop_back();
    if (!nodes.insert(id).second) continue;
    const Node& node = graph.node(id);
    for (const Value& input : node.inputs()) pending.push_back(input.node().id());
    for (const Node* before : node.control_inputs()) pending.push_back(before->id());
  }
  return nodes;
}

std::set<NodeId> updates_of(const Program& program, const Graph& graph) {
  std::set<NodeId> updates;
  for (const Step& step : program.schedule.steps) {
    const bool is_update = step.kind == StepKind::compute && graph.node(step.node).op().is_update();
    if (is_update) updates.insert(step.node);
  }
  return updates;
}

/// What decides a program's numbers, and what it communicates in which order. Not how it is executed beside that: where
/// tensors are kept and what is computed again may differ from rank to rank, since it changes no bit.
std::string program_text(const Program& program, const Graph& graph, const SessionOptions& options, int threads) {
  const std::set<NodeId> updates = updates_of(program, graph);
  std::ostringstream text;
  text << "feeds: " << feeds_text(program, graph) << "\nseed: " << options.seed << "\nthreads: " << threads
       << "\ninstruction set: " << to_string(instruction_set()) << "\ngraph: " << std::hex
       << graph_digest(graph, nodes_in_common(program, updates, graph)) << std::dec << "\nupdates:";
  for (const NodeId update : updates) text << " " << update;
  text << "\ncommunications:";
  for (const StepIndex step : program.digest.communications) {
    text << " " << program.schedule.steps[static_cast<std::size_t>(step)].node;
  }
  return text.str();
}

std::uint64_t hash_of_text(const std::string& text) {
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace

void Engine::check_ranks(const Program& program) const {
  if (program.ranks == 0) return;
  const Communicator* const communicator = options_.communicator.get();
  const int ranks = communicator != nullptr ? communicator->size() : 1;
  SF_CHECK_CODE(program.ranks == ranks, ArgumentError, ErrorCode::ranks, "the graph's updates are of ", program.ranks,
                program.ranks == 1 ? " rank" : " ranks", ", and the session has ",
                communicator != nullptr ? text_of("a communicator of ", ranks, " (", communicator->description(), ")")
                                        : std::string("no communicator"),
                hint("give UpdateOptions::ranks (TrainingOptions::ranks) the communicator's size()",
                     communicator != nullptr ? "" : ", and the session the communicator"));
  SF_CHECK_CODE(communicator != nullptr || program.digest.communications.empty(), ArgumentError, ErrorCode::ranks,
                "the program communicates with other ranks, and the session has no communicator",
                hint("give the session one (SessionOptions::communicator), or leave the operation out"));
}

/// Before a program is executed for the first time all ranks compare it. One that only this rank compiles again is not
/// compared again: the others would not come. From then on a number tells with each call which one it is, of which
/// cycle.
void Engine::agree(Executable& program) {
  Communicator& communicator = *options_.communicator;
  const std::int64_t taken = program.micro_batch ? read_counter(*program.micro_batch) : 0;
  communicator.set_work(0);
  if (program.agreed == 0) {
    std::string text = program_text(program, *graph_, options_, threads_);
    const std::uint64_t number = hash_of_text(text);
    if (!agreed_.contains(text)) {
      communicator.expect_same("the program of a training step",
                               text_of(text, "\ncompleted cycles: ", cycle_, "\nmicro-batches taken: ", taken));
      agreed_.insert(std::move(text));
    }
    program.agreed = number;
  }
  communicator.set_work(hash_of_text(text_of(program.agreed, " ", cycle_, " ", taken)));
}

std::vector<HostTensor> Engine::execute_range(Executable& program, StepIndex first, StepIndex last,
                                              const std::vector<const std::byte*>& feeds, const ExecuteOptions& options,
                                              ExecutionTimes* times) {
  const bool communicates = !steps_between(program.digest.communications, first, last).empty();
  if (!communicates) return execute_here(program, first, last, feeds, options, times);
  // What differs shows on all ranks, before anything has happened: they may go on otherwise.
  agree(program);
  try {
    std::vector<HostTensor> fetched = execute_here(program, first, last, feeds, options, times);
    options_.communicator->set_work(0);
    return fetched;
  } catch (...) {
    fail_ranks(*options_.communicator);
    throw;
  }
}

/// A session that ends by an exception takes no part any more: others need not wait until they give up.
void Engine::leave_ranks() noexcept {
  if (options_.communicator == nullptr || std::uncaught_exceptions() <= exceptions_) return;
  options_.communicator->fail("its session has ended by an exception");
}

}  // namespace sectionflow

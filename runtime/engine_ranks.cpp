// A session of several ranks: that all execute the same, and that none waits for one that has failed.

#include <exception>
#include <ios>
#include <sstream>

#include "base/error.h"
#include "comm/communicator.h"
#include "device/instruction_set.h"
#include "graph/graph_file.h"
#include "runtime/engine.h"
#include "runtime/executor.h"

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

/// What decides a program's numbers, and what it communicates in which order. Not how it is executed beside that: where
/// tensors are kept and what is computed again may differ from rank to rank, since it changes no bit.
std::string program_text(const Program& program, const Graph& graph, const SessionOptions& options, int threads) {
  std::ostringstream text;
  text << "feeds: " << feeds_text(program, graph) << "\nseed: " << options.seed << "\nthreads: " << threads
       << "\ninstruction set: " << to_string(instruction_set()) << "\ngraph: " << std::hex << graph_digest(graph)
       << std::dec << "\ncommunications:";
  for (const StepIndex step : program.digest.communications) {
    text << " " << program.schedule.steps[static_cast<std::size_t>(step)].node;
  }
  return text.str();
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
}

/// Before a program is executed for the first time all ranks compare it. One that only this rank compiles again is not
/// compared again: the others would not come.
void Engine::agree(const Program& program) {
  std::string text = program_text(program, *graph_, options_, threads_);
  if (agreed_.contains(text)) return;
  const std::int64_t taken = program.micro_batch ? read_counter(*program.micro_batch) : 0;
  options_.communicator->expect_same("the program of a training step",
                                     text_of(text, "\ncompleted cycles: ", cycle_, "\nmicro-batches taken: ", taken));
  agreed_.insert(std::move(text));
}

std::vector<HostTensor> Engine::execute_range(Executable& program, StepIndex first, StepIndex last,
                                              const std::vector<const std::byte*>& feeds, const ExecuteOptions& options,
                                              ExecutionTimes* times) {
  const bool communicates = !steps_between(program.digest.communications, first, last).empty();
  if (!communicates) return execute_here(program, first, last, feeds, options, times);
  // What differs shows on all ranks, before anything has happened: they may go on otherwise.
  if (!program.is_agreed) agree(program);
  program.is_agreed = true;
  try {
    return execute_here(program, first, last, feeds, options, times);
  } catch (...) {
    fail_ranks(*options_.communicator);
    throw;
  }
}

/// A session that ends by an exception takes no part any more: others need not wait until they give up.
void Engine::leave_ranks() noexcept {
  if (agreed_.empty() || std::uncaught_exceptions() <= exceptions_) return;
  options_.communicator->fail("its session has ended by an exception");
}

}  // namespace sectionflow

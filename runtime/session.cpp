#include "runtime/session.h"

#include <utility>

#include "runtime/engine.h"

namespace sectionflow {

Engine& engine(Session& session) {
  return *session.engine_;
}
const Engine& engine(const Session& session) {
  return *session.engine_;
}

Session::Session(Graph& graph, SessionOptions options, Where where)
    : engine_(std::make_unique<Engine>(graph, std::move(options), where)) {}
Session::~Session() = default;

void Session::initialize(Where where) {
  engine_->initialize(where);
}

std::vector<HostTensor> Session::run_flat(const std::vector<Value>& fetches, const Feeds& feeds,
                                          const RunOptions& options, Where where) {
  return engine_->run(fetches, feeds, options, where);
}

ProgramReport Session::plan(const std::vector<Value>& fetches, const FeedTypes& feeds, const RunOptions& options,
                            Where where) {
  return engine_->plan(fetches, feeds, options, where);
}

HostTensor Session::read(Value variable, Where where) {
  return engine_->read(variable, where);
}

void Session::write(Value variable, const HostTensor& tensor, Where where) {
  engine_->write(variable, tensor, where);
}

const Graph& Session::graph() const {
  return engine_->graph();
}

const SessionOptions& Session::options() const {
  return engine_->options();
}

std::size_t Session::budget_bytes() const {
  return engine_->budgets().device;
}

const TierBudgets& Session::budgets() const {
  return engine_->budgets();
}

std::size_t Session::context_bytes() const {
  return engine_->device().context_bytes();
}

const AlgorithmChoices& Session::algorithm_choices() const {
  return engine_->device().choices().known();
}

void Session::use_algorithms(const AlgorithmChoices& choices) {
  engine_->use_algorithms(choices);
}

std::string Session::device_name() const {
  return engine_->device().name();
}

int Session::threads() const {
  return engine_->threads();
}

std::uint64_t Session::completed_cycles() const {
  return engine_->completed_cycles();
}

void Session::set_completed_cycles(std::uint64_t cycles, Where where) {
  engine_->set_completed_cycles(cycles, where);
}

std::int64_t Session::executions(const Node& node) const {
  return engine_->executions(node);
}

const Statistics& Session::statistics() const {
  return engine_->statistics();
}

void Session::clear_statistics() {
  engine_->clear_statistics();
}

void Session::set_measuring(bool on) {
  engine_->set_measuring(on);
}

void Session::set_value_checks(const ValueChecks& checks) {
  engine_->set_value_checks(checks);
}

const ValueChecks& Session::value_checks() const {
  return engine_->value_checks();
}

void Session::set_trace(Trace* trace) {
  engine_->set_trace(trace);
}

}  // namespace sectionflow

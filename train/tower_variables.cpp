#include "train/tower_variables.h"

#include "graph/nodes/shards.h"
#include "runtime/engine.h"
#include "schedule/micro_batches.h"
#include "train/match_variables.h"

namespace sectionflow {

void check_whole(const Session& session) {
  // A program that asks nothing leaves what is asked of the session itself.
  engine(session).check_ready(Program());
}

void check_no_half(const Session& session, const char* call) {
  SF_CHECK_CODE(engine(session).pending() == nullptr, ArgumentError, ErrorCode::pending_half, call,
                ": the backward half of a cycle is pending; call run_backward or discard_forward first");
}

void check_can_set(const Session& session, const char* call) {
  check_no_half(session, call);
  SF_CHECK_CODE(!engine(session).is_training_refused(), ArgumentError, ErrorCode::averages_in_place, call,
                ": averages stand in the place of the weights: AveragedWeights still lives",
                hint("end its scope first"));
}

Value known_variable(const Tower& tower, const std::string& name, const char* call) {
  const Value variable = tower.graph().find(name).output();
  const bool is_variable = variable.node().op().is_variable();
  SF_CHECK(is_variable, ArgumentError, call, " of '", name, "': wanted a variable of the towers' graph");
  SF_CHECK_CODE(engine(tower.session()).layout().contains(place_of(variable).node().id()), ArgumentError,
                ErrorCode::not_initialized, call, " of '", name, "': it has no value yet",
                hint("make all variables, optimisers included, before initialize()"));
  return variable;
}

Value settable_variable(const Tower& tower, const std::string& name, const TensorType& type) {
  check_can_set(tower.session(), "write");
  check_whole(tower.session());
  const Value variable = known_variable(tower, name, "write");
  SF_CHECK(type == whole_type(variable), ShapeError, "write of '", name, "': got ", type.text(), ", wanted ",
           whole_type(variable).text());
  return variable;
}

namespace {

void check_begins(const MicroBatches& update, std::int64_t taken, const std::string& what, const std::string& remedy) {
  SF_CHECK_CODE(taken == 0, ArgumentError, ErrorCode::micro_batches, what, " amid an update: ", taken, " of its ",
                update.count, " micro-batches have been taken ('", update.index.name(),
                "'), and what their gradients sum to depends on the number of towers", hint(remedy));
}

}  // namespace

void check_between_updates(Session& session, const char* call) {
  for (const MicroBatches& update : micro_batches_of(session.graph())) {
    const HostTensor taken = session.read(update.index);
    check_begins(update, taken.item<std::int64_t>(), text_of(call, ": the towers are"),
                 "train until the update has all its micro-batches");
  }
}

void check_between_updates(const Session& session, const VariableFile& file, const LoadOptions& options) {
  LoadReport report;
  const std::vector<MicroBatches> updates = micro_batches_of(session.graph());
  for (const auto& [variable, tensor] : match_variables(session.graph(), file, options, report)) {
    for (const MicroBatches& update : updates) {
      if (!(update.index == variable)) continue;
      check_begins(update, tensor->item<std::int64_t>(), text_of("load: '", file.path, "' was saved"),
                   "take a file that was saved between updates, or {.weights_only = true}");
    }
  }
}

}  // namespace sectionflow

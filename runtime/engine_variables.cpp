// The variables of a session: their initial values, reading and writing them.

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "device/mapped_memory.h"
#include "graph/ops/basic.h"
#include "runtime/engine.h"
#include "runtime/lent_memory.h"
#include "runtime/swap_engine.h"

namespace sectionflow {

std::byte* Engine::variable_bytes(Value variable, const char* call) {
  check_not_pending(call);
  meet_graph();
  SF_CHECK(variable.valid() && &variable.graph() == graph_ && is_variable(variable), ArgumentError, call, " of '",
           variable.valid() ? variable.name() : "", "': wanted a variable of this session's graph");
  const auto id = static_cast<std::size_t>(variable.node().id());
  SF_CHECK_CODE(initialized_ && layout_.contains(variable.node().id()), ArgumentError, ErrorCode::not_initialized, call,
                " of '", variable.name(), "': it has no value yet", hint("call session.initialize() first"));
  return layout_.has_host_home(variable.node().id()) ? swaps_->host_base() + layout_.host_offsets[id]
                                                     : arena().data() + layout_.offsets[id];
}

void Engine::set_initial_values() {
  lay_out_variables();
  std::vector<std::int64_t> no_executions(static_cast<std::size_t>(graph_->num_nodes()), 0);
  RunOptions assignments;
  std::vector<Value> stored;
  for (NodeId id = 0; id < graph_->num_nodes(); ++id) {
    Node& node = graph_->node(id);
    if (!node.op().is_variable()) continue;
    if (constant_content(node.output()) != nullptr) {
      stored.push_back(node.output());
    } else {
      assignments.targets.push_back(initializer_of(node.output()));
    }
  }
  initialized_ = true;
  const RunRequest request{.fetches = {}, .targets = assignments.targets, .gives_initial_values = true};
  const auto write = [&](PlanningTools& tools) {
    try {
      return build_schedule(tools.graph(), request);
    } catch (Error& error) {
      error.add_fact("needed", "for the initial values of variables, each of which is there before others read it");
      throw;
    }
  };
  Executable& initial = program(
      "initial values", {}, [&] { return request; }, write);
  initial.report.initializes = true;
  execute(initial, {});
  for (const Value& constant : stored) {
    const HostTensor& content = *constant_content(constant);
    std::byte* bytes = variable_bytes(constant, "initialize()");
    if (layout_.has_host_home(constant.node().id())) {
      std::copy_n(content.bytes(), content.num_bytes(), bytes);
    } else {
      device_->copy_from_host(bytes, content.bytes(), content.num_bytes());
    }
  }
  executions_.swap(no_executions);
}

void Engine::check_has_values(const char* call) {
  const auto inside = enter();
  check_not_pending(call);
  meet_graph();
  SF_CHECK_CODE(initialized_, ArgumentError, ErrorCode::not_initialized, call,
                ": the session's variables have no values yet",
                hint("call session.initialize() first: it makes room for them, and a value for each"));
  for (Value variable : graph_->values(kVariables)) {
    SF_CHECK_CODE(layout_.contains(variable.node().id()), ArgumentError, ErrorCode::not_initialized, call,
                  ": variable '", variable.name(), "' was made after session.initialize()",
                  Fact{"variable", variable.node().place()},
                  hint("make all variables, optimisers included, before it"));
  }
}

void Engine::set_completed_cycles(std::uint64_t cycles, Where where) {
  user_call(where, [&] {
    check_not_pending("set_completed_cycles");
    SF_CHECK_CODE(initialized_, ArgumentError, ErrorCode::not_initialized,
                  "set_completed_cycles: the session's variables have no values yet",
                  hint("call session.initialize() first: it sets the count to 0"));
    cycle_ = cycles;
    last_write_ = ++num_writes_;  // what is saved of the session has another count
  });
}

HostTensor Engine::read(Value variable, Where where) {
  HostTensor tensor;
  user_call(where, [&] {
    // First: what is no variable of this graph may have no type.
    const std::byte* bytes = variable_bytes(variable, "read");
    tensor = HostTensor(variable.type());
    if (layout_.has_host_home(variable.node().id())) {
      std::copy_n(bytes, tensor.num_bytes(), tensor.bytes());
    } else {
      device_->copy_to_host(tensor.bytes(), bytes, tensor.num_bytes());
    }
  });
  return tensor;
}

void Engine::read_to(std::byte* bytes, Value variable, Where where) {
  user_call(where, [&] {
    const std::byte* from = variable_bytes(variable, "read");
    if (device_->kind() == DeviceKind::cpu || layout_.has_host_home(variable.node().id())) {
      const auto entered = device_->enter();
      copy_past_caches(bytes, from, variable.type().bytes());
    } else {
      device_->copy_to_host(bytes, from, variable.type().bytes());
    }
  });
}

std::shared_ptr<HostHold> Engine::hold_host_memory(std::size_t num_bytes, std::function<void()> give_back) {
  const auto inside = enter();
  auto hold = holds_->hold_free(num_bytes, give_back);
  if (hold != nullptr) return hold;
  if (lent_ != nullptr) lent_->drop_idle();
  return holds_->hold(num_bytes, give_back);
}

std::shared_ptr<LentMemory> Engine::lent_memory() {
  const auto inside = enter();
  constexpr std::size_t kOnAGpu = std::size_t{1} << 30;
  const std::size_t most = options_.lent_memory.value_or(device_->queues() != nullptr ? kOnAGpu : 0);
  if (lent_ == nullptr && most > 0) lent_ = std::make_shared<LentMemory>(most, holds_, device_->queues());
  return lent_;
}

void Engine::write(Value variable, const HostTensor& tensor, Where where) {
  user_call(where, [&] {
    std::byte* bytes = variable_bytes(variable, "write");
    SF_CHECK(constant_content(variable) == nullptr, ArgumentError, "write of '", variable.name(),
             "': that is a constant, whose value the graph has; wanted a variable");
    SF_CHECK(tensor.type() == variable.type(), ShapeError, "write of '", variable.name(), "': got ",
             tensor.type().text(), ", wanted ", variable.type().text());
    last_write_ = ++num_writes_;
    if (layout_.has_host_home(variable.node().id())) {
      std::copy_n(tensor.bytes(), tensor.num_bytes(), bytes);
    } else {
      device_->copy_from_host(bytes, tensor.bytes(), tensor.num_bytes());
    }
  });
}

}  // namespace sectionflow

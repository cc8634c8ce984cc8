#include "graph/op_registry.h"

#include <atomic>

#include "graph/registration.h"

namespace sectionflow {

// One function a family, in graph/ops/<family>.cpp.
#define SF_OP_FAMILY(family) void define_##family##_ops(OpRegistry& registry);
#include "graph/op_list.inc"
#undef SF_OP_FAMILY

namespace {

OpRegistry& all_ops() {
  static OpRegistry registry = [] {
    OpRegistry all;
#define SF_OP_FAMILY(family) define_##family##_ops(all);
#include "graph/op_list.inc"
#undef SF_OP_FAMILY
    return all;
  }();
  return registry;
}

std::atomic<bool> has_ended{false};

}  // namespace

bool may_agree(const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype || a.shape.rank() != b.shape.rank()) return false;
  for (int i = 0; i < a.shape.rank(); ++i) {
    if (a.shape[i] != b.shape[i] && a.shape[i] != kDynamic && b.shape[i] != kDynamic) return false;
  }
  return true;
}

std::vector<InputUse> OpDef::input_uses(std::size_t num_inputs, HostBooleans booleans) const {
  if (!uses) return std::vector<InputUse>(num_inputs, InputUse::data);
  auto of_inputs = uses(num_inputs, booleans);
  SF_CHECK(of_inputs.size() == num_inputs, InternalError, "OpDef::uses of '", name, "' gives ", of_inputs.size(),
           " uses; wanted one an input, ", num_inputs);
  return of_inputs;
}

void throw_other_options(const std::string& label) {
  throw InternalError(error_text_of(label, ": the operation's code asks for options of another type than its node has",
                                    hint("the type is that of OpDef::options")));
}

void OpRegistry::add(OpDef definition) {
  const std::string name = definition.name;
  SF_CHECK_CODE(definitions_.try_emplace(name, std::move(definition)).second, ArgumentError, ErrorCode::registration,
                "op '", name, "' is defined twice", hint("give one of them another name"));
}

const OpDef& OpRegistry::at(const std::string& name) const {
  const auto found = definitions_.find(name);
  SF_CHECK(found != definitions_.end(), InternalError, "op '", name, "' has no definition");
  return found->second;
}

const OpRegistry& op_registry() {
  return all_ops();
}

void take_ops(OpRegistry& family) noexcept {
  all_ops().take(family);
}
bool registration_has_ended() noexcept {
  return has_ended.load();
}
void end_registration() noexcept {
  has_ended.store(true);
}

}  // namespace sectionflow

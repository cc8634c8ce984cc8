#include "extend/check_definition.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sectionflow {
namespace {

template <class... Parts>
void demand(bool holds, const OpDef& op, const Parts&... parts) {
  SF_CHECK_CODE(holds, ArgumentError, ErrorCode::registration, "the op '", op.name, "' ", parts...);
}

/// A letter, then letters, digits and underscores.
bool is_word(std::string_view text) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_other = [](char c) { return (c >= '0' && c <= '9') || c == '_'; };
  return !text.empty() && is_letter(text.front()) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return is_letter(c) || is_other(c); });
}

void check_inputs(const OpDef& op, const std::vector<int>& indices, const char* trait) {
  std::set<int> seen;
  for (int index : indices) {
    demand(index >= 0 && index < op.inputs.most, op, "names input ", index, " in ", trait, "; wanted 0 to ",
           op.inputs.most - 1);
    demand(seen.insert(index).second, op, "names input ", index, " twice in ", trait);
  }
}

}  // namespace

void check_outside_name(const std::string& name) {
  const auto dot = name.find('.');
  const bool has_form = dot != std::string::npos && is_word(std::string_view(name).substr(0, dot)) &&
                        is_word(std::string_view(name).substr(dot + 1));
  SF_CHECK_CODE(has_form, ArgumentError, ErrorCode::registration, "an op got the name '", name,
                "'; wanted its library's name, a dot, and its own, of lower-case letters, digits and underscores",
                hint("try a name like 'acme.swish'"));
}

void check_definition(const OpDef& op) {
  demand(bool{op.infer}, op, "has no shape rule", hint("set OpDef::infer; graph/shape_rules.h has the usual ones"));
  demand(op.inputs.least >= 0 && op.inputs.least <= op.inputs.most, op, "takes from ", op.inputs.least, " to ",
         op.inputs.most, " inputs");
  const bool has_options = op.options.type != nullptr && *op.options.type != typeid(void);
  demand(has_options == bool{op.options.write} && has_options == bool{op.options.read}, op,
         "has options that can only be written, or only be read", hint("make OpDef::options by described_by"));
  demand(op.role == OpRole::computed, op, "is a ",
         op.is_constant()   ? "constant"
         : op.is_variable() ? "variable"
                            : "placeholder",
         ", which sessions treat as their own", hint("leave OpDef::role as it is"));
  demand(op.movement == Movement::none, op, "moves tensors between device and host, which planners do by themselves",
         hint("leave OpDef::movement as it is"));
  demand(op.has_kernel, op, "says that it has no kernel", hint("leave OpDef::has_kernel as it is"));
  check_inputs(op, op.updated_inputs, "updated_inputs");
  demand(std::all_of(op.updated_inputs.begin(), op.updated_inputs.end(), [&](int i) { return i < op.inputs.least; }),
         op, "updates an input that may be absent", hint("name inputs below ", op.inputs.least, " in updated_inputs"));
  demand(op.left_by_update.empty() || op.left_by_update.size() == op.updated_inputs.size(), op, "says of ",
         op.left_by_update.size(), " updated inputs what is left in them, and updates ", op.updated_inputs.size(),
         hint("give left_by_update one entry an updated input, or none"));
  demand(op.left_by_update.empty() || op.left_by_update.front() != LeftByUpdate::seen, op,
         "says of the first updated input that the first one shows what is left in it",
         hint("begin left_by_update with own, or unchanged"));
  demand(op.updated_inputs.empty() || op.recompute == Recompute::once, op,
         "updates variables and may be executed again, which would update them twice",
         hint("set OpDef::recompute to Recompute::once"));
  demand(!op.communicates || (op.recompute == Recompute::once && op.updated_inputs.empty()), op,
         "communicates, and may be executed again or updates variables",
         hint("set OpDef::recompute to Recompute::once, and have another operation update by what it gives"));
  demand(std::all_of(op.kept_outputs.begin(), op.kept_outputs.end(), [](int i) { return i >= 0; }), op,
         "names a negative output in kept_outputs");
}

void check_gradient_traits(const OpDef& op, const GradientTraits& traits) {
  check_inputs(op, traits.zero_inputs, "zero_inputs");
  check_inputs(op, traits.perhaps_none, "perhaps_none");
}

}  // namespace sectionflow

#include "autodiff/parameter_groups.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/name_pattern.h"

namespace sectionflow {
namespace {

std::string name_of(const ParameterGroup& group, std::size_t number) {
  std::string patterns;
  for (const std::string& pattern : group.variables.all()) patterns += (patterns.empty() ? "'" : ", '") + pattern + "'";
  return text_of("parameter group ", number, " (", patterns.empty() ? "all others" : patterns, ")");
}

void check_group(const ParameterGroup& group, const std::string& name, const std::string& call) {
  const bool decays = group.weight_decay.has_value();
  SF_CHECK_CODE(!group.frozen || (!group.optimizer && !decays), ArgumentError, ErrorCode::parameter_group, call, ": ",
                name, " is frozen and has ", group.optimizer ? "an optimiser" : "weight decay",
                hint("leave one of them out: what is frozen is not changed"));
  SF_CHECK_CODE(group.frozen || group.optimizer, ArgumentError, ErrorCode::parameter_group, call, ": ", name,
                " has no optimiser", hint("add .optimizer = Adam{}, or .frozen = true"));
  SF_CHECK_CODE(!decays || (std::isfinite(*group.weight_decay) && *group.weight_decay >= 0), ArgumentError,
                ErrorCode::parameter_group, call, ": weight_decay of ", name, " is ", *group.weight_decay,
                "; wanted 0 or more");
}

/// Which of the variables a pattern names.
std::vector<bool> named_by(const std::string& pattern, const std::vector<Value>& variables, const std::string& group,
                           const std::string& call) {
  std::vector<bool> named;
  for (const Value& variable : variables) named.push_back(matches_pattern(variable.name(), pattern));
  if (std::find(named.begin(), named.end(), true) != named.end()) return named;
  std::vector<std::string> names;
  for (const Value& variable : variables) names.push_back(variable.name());
  const auto nearest = nearest_pattern(pattern, names);
  throw ArgumentError(
      error_text_of(call, ": '", pattern, "' of ", group, " names none of ", names.size(), " variables to train",
                    nearest ? hint("did you mean '", *nearest, "'?")
                            : hint("names are like '", names.front(), "'; * stands for any characters")),
      ErrorCode::parameter_group);
}

}  // namespace

std::vector<std::vector<Value>> members_of(const std::vector<ParameterGroup>& groups,
                                           const std::vector<Value>& variables, const std::string& call) {
  SF_CHECK_CODE(!groups.empty(), ArgumentError, ErrorCode::parameter_group, call, ": there is no parameter group",
                hint("one without `.variables` takes all: {{.optimizer = Adam{}}}"));
  SF_CHECK_CODE(!variables.empty(), ArgumentError, ErrorCode::parameter_group, call,
                ": there is no variable to put into groups", hint("make one with variable() or a layer"));
  std::vector<std::string> names;
  for (std::size_t g = 0; g < groups.size(); ++g) names.push_back(name_of(groups[g], g));
  std::vector<std::optional<std::size_t>> group_of(variables.size());
  std::optional<std::size_t> rest;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    check_group(groups[g], names[g], call);
    if (groups[g].variables.all().empty()) {
      SF_CHECK_CODE(!rest, ArgumentError, ErrorCode::parameter_group, call, ": parameter groups ", *rest, " and ", g,
                    " both take all variables that no other names", hint("give one of them `.variables`"));
      rest = g;
    }
    for (const std::string& pattern : groups[g].variables.all()) {
      const std::vector<bool> named = named_by(pattern, variables, names[g], call);
      for (std::size_t i = 0; i < variables.size(); ++i) {
        if (!named[i]) continue;
        SF_CHECK_CODE(!group_of[i] || *group_of[i] == g, ArgumentError, ErrorCode::parameter_group, call,
                      ": variable '", variables[i].name(), "' is in ", names[*group_of[i]], " and in ", names[g],
                      hint("a group without `.variables` takes all that no other names"));
        group_of[i] = g;
      }
    }
  }
  std::vector<std::vector<Value>> members(groups.size());
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (!group_of[i]) group_of[i] = rest;
    SF_CHECK_CODE(group_of[i], ArgumentError, ErrorCode::parameter_group, call, ": variable '", variables[i].name(),
                  "' is in no parameter group",
                  hint("name it in one, or add a group without `.variables` for all others"));
    members[*group_of[i]].push_back(variables[i]);
  }
  return members;
}

namespace {

/// Whether it applies a weight decay by itself.
template <class Chosen>
constexpr bool decays_by_itself() {
  return requires(Chosen chosen) {
    chosen.weight_decay;
  };
}

}  // namespace

Optimizer optimizer_of(const ParameterGroup& group) {
  Optimizer optimizer = *group.optimizer;
  std::visit(
      [&](auto& chosen) {
        if constexpr (decays_by_itself<std::decay_t<decltype(chosen)>>()) {
          chosen.weight_decay = group.weight_decay.value_or(chosen.weight_decay);
        }
      },
      optimizer);
  return optimizer;
}

float added_decay(const ParameterGroup& group) {
  const bool is_own = std::visit([](const auto& chosen) { return decays_by_itself<std::decay_t<decltype(chosen)>>(); },
                                 *group.optimizer);
  return is_own ? 0 : group.weight_decay.value_or(0.0F);
}

}  // namespace sectionflow

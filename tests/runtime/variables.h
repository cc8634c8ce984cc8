#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/session.h"

namespace sectionflow {

/// What a session's variables hold, by their names.
inline std::map<std::string, HostTensor> variables_of(Session& session) {
  std::map<std::string, HostTensor> variables;
  for (Value variable : session.graph().values(kVariables)) variables.emplace(variable.name(), session.read(variable));
  return variables;
}

/// The names of variables that differ in any byte.
inline std::vector<std::string> differing(const std::map<std::string, HostTensor>& a,
                                          const std::map<std::string, HostTensor>& b) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : a) {
    if (!bitwise_equal(tensor, b.at(name))) names.push_back(name);
  }
  return names;
}

}  // namespace sectionflow

#pragma once

#include <any>
#include <optional>
#include <vector>

#include "runtime/engine.h"

namespace sectionflow {

/// A forward half whose backward half is still to come.
struct Engine::Pending {
  Executable* program = nullptr;
  std::any note;
  std::vector<HostTensor> feeds;          ///< copies, one an entry of Schedule::feeds
  bool is_measured = false;               ///< the canaries were there before it began
  std::optional<ExecutionTimes> times{};  ///< so far
};

}  // namespace sectionflow

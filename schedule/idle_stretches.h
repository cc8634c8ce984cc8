#pragma once

#include <cstddef>
#include <vector>

#include "base/export.h"
#include "schedule/planning_tools.h"

namespace SF_API sectionflow {

/// A stretch of an instruction list in which a device buffer lies idle: behind the instruction that used it last, up to
/// the instruction that uses it next. The value may be offloaded in between.
struct IdleStretch {
  Value value{};          ///< of the buffer
  int begin = 0;          ///< "before this instruction" the value may be copied out
  int end = 0;            ///< the instruction that uses it again
  std::size_t bytes = 0;  ///< of the buffer
  StepIndex after = -1;   ///< the draft's step that used it last; -1: it was there when the list began
  StepIndex before = 0;   ///< the draft's step that uses it again
  int buffer = 0;         ///< of the draft's schedule
};

/// The instruction that each step of a draft comes from; for a step of no instruction, the next one.
std::vector<int> instructions_of_steps(const Schedule& schedule);

/// All stretches of at least one instruction between two uses of a buffer, in the order of buffers and instructions.
std::vector<IdleStretch> idle_stretches(const Draft& draft);

}  // namespace sectionflow

#pragma once

#include <cstddef>
#include <vector>

#include "base/export.h"
#include "schedule/planning_tools.h"

namespace SF_API sectionflow {

/// A stretch of a script in which a device buffer lies idle: behind the line that used it last, up to the line that
/// uses it next. The value may rest elsewhere in between.
struct IdleStretch {
  Value value{};          ///< of the buffer
  int begin = 0;          ///< "before this line" the value may leave
  int end = 0;            ///< the line that uses it again
  std::size_t bytes = 0;  ///< of the buffer
  StepIndex after = -1;   ///< the draft's step that used it last; -1: it was there when the script began
  StepIndex before = 0;   ///< the draft's step that uses it again
  int buffer = 0;         ///< of the draft's schedule
};

/// The line of the script that each step of a draft comes from; for a step of no line, the next one.
std::vector<int> lines_of_steps(const Schedule& schedule);

/// All stretches of at least one line between two uses of a buffer, in the order of buffers and lines.
std::vector<IdleStretch> idle_stretches(const Draft& draft);

}  // namespace sectionflow

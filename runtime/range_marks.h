#pragma once

#include <string>

#include "runtime/session.h"

namespace sectionflow {

/// Named stretches of time, one within the other, for a profiler that watches the process: on a GPU those of NVTX,
/// which Nsight Systems shows beside the kernels. Without a profiler they cost a call; on the CPU nothing is marked.
/// Threads: the one that has begun a stretch ends it.
class RangeMarks {
 public:
  RangeMarks() = default;
  /// Those of the session's device.
  explicit RangeMarks(const Session& session);

  /// Whether anything is marked: names need not be made otherwise.
  bool are_on() const { return push_ != nullptr; }
  void begin(const std::string& name);
  /// Ends what was begun last; nothing where nothing is open.
  void end();
  /// Ends all but so many that were begun first.
  void end_down_to(int depth);
  /// How many are open.
  int depth() const { return depth_; }

 private:
  void (*push_)(const char* name) = nullptr;
  void (*pop_)() = nullptr;
  int depth_ = 0;
};

}  // namespace sectionflow

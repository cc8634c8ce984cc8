#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "base/export.h"
#include "runtime/trace.h"
#include "schedule/program.h"

// Not installed. Exported all the same: sectionflow_compare, a library of its own, draws timelines.
namespace SF_API sectionflow {

/// The steps of a program as events of a trace, without their cycle and their times. What is alive at each step is
/// worked out when it is made. Threads: any. The program must outlive it.
class StepEvents {
 public:
  explicit StepEvents(const Program& program);
  Trace::Event event(StepIndex index) const;

 private:
  const Program& program_;
  std::array<std::vector<std::size_t>, kNumTiers> alive_;  // bytes in each tier, at each step
};

/// A stretch of time, in the unit of who gives it.
struct TimeSpan {
  double start = 0;
  double end = 0;
};

/// When each step of the program ran in the last execution that the trace has, in microseconds from that execution's
/// start. Throws: ArgumentError (SF-E433), which `what` begins, where that execution is none of the whole program.
std::vector<TimeSpan> step_spans(const Program& program, const Trace& trace, const std::string& what);

/// From the first to the last step that touches each storage: one a storage.
std::vector<TimeSpan> storage_stays(const Program& program, const std::vector<TimeSpan>& steps);

/// The section of the value in a buffer; that of scratch is the one of the pass that uses it.
GroupId section_of(const Program& program, const Graph& graph, const Buffer& buffer);
/// "head", or "section 2" for one without a name, or "outside of sections".
std::string section_name(const Graph& graph, GroupId section);
/// The pass of a step; where training goes by the whole graph, with the section of what is computed.
Pass pass_of(const Program& program, const Graph& graph, const Step& step);

}  // namespace sectionflow

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/export.h"
#include "runtime/session.h"
#include "runtime/trace.h"
#include "schedule/step_kind.h"

namespace SF_API sectionflow {

/// What lies where in the course of one cycle, and what is carried meanwhile: the data of a picture, without any
/// drawing. Times are milliseconds since the cycle's start, or numbers of steps where nothing was traced.
struct MemoryTimeline {
  /// A part of device memory that is shown as one.
  struct Layer {
    std::string name;            ///< "variables", "section 2", "outside of sections"
    GroupId section = kNoGroup;  ///< whose values these are
  };
  /// The bytes alive from `at` on, until the next sample.
  struct Sample {
    double at = 0;
    std::vector<std::size_t> device{};  ///< one a layer
    std::size_t host = 0, disk = 0;

    std::size_t device_bytes() const;
  };
  /// A stretch of computing, one copy, or one communication with other ranks.
  struct Bar {
    StepKind kind = StepKind::compute;
    double start = 0, end = 0;
    std::string name{};     ///< of the pass, of the tensor that is copied, or of what ranks get in common
    Pass pass{};            ///< of a stretch of computing
    std::size_t bytes = 0;  ///< of a copy or a communication
    int offload = -1;       ///< of a copy: the number of its offload
    bool communicates = false;
  };

  bool timed = false;             ///< whether `at`, `start`, `end` are milliseconds
  double end = 0;                 ///< of the cycle
  std::vector<Layer> layers{};    ///< the first holds the variables
  std::vector<Sample> samples{};  ///< by time
  std::vector<Bar> bars{};
  std::size_t device_peak_bytes = 0;  ///< as planned: highest end of anything, gaps included
  std::size_t host_peak_bytes = 0, disk_peak_bytes = 0;
};

/// How full memory is in the course of the program that the session planned or ran last: with a trace as the last
/// execution in it was measured, without as planned, step by step. A stay begins with the first step that touches its
/// bytes and ends with the last. Throws: ArgumentError for a session that has planned and run nothing, and (SF-E433)
/// for a trace that ends with something else.
MemoryTimeline timeline_of(const Session& session, const Trace* trace = nullptr);

/// The samples in at most `columns` equal stretches of time, each where device memory is fullest in it; host and disk
/// where they are. Peaks stay what they are, at any width. Every column has a sample.
std::vector<MemoryTimeline::Sample> columns_of(const MemoryTimeline& timeline, int columns);

}  // namespace sectionflow

#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "graph/graph.h"
#include "runtime/trace.h"

namespace SF_API sectionflow {

/// How TraceFiles cuts a run into files.
struct TraceFileOptions {
  /// A file gets no event that would make it larger; one event alone may be. Viewers fail on several times as much.
  std::size_t max_file_bytes = 100'000'000;
  int keep = 10;  ///< so many of the last files stay; 0: all
};

/// The timeline of a long run in files of a bounded size, for chrome://tracing and Perfetto:
///
///   TraceFiles files("timeline", session.graph());
///   Trace trace;
///   session.set_trace(&trace);
///   while (...) {
///     session.run(...);
///     files.add(trace);
///     trace.clear();
///   }
///
/// Files are called trace-00000.json and so on, and go on behind those that the folder has. Each can be looked at
/// alone, also one that a killed process has left: it is the form of the format that wants no end. Where there are more
/// than `keep` files of such names in the folder, the oldest are deleted, but for those that are being written: several
/// may write to a folder at once, in one process or more, each to files of its own. Owns: the open file. Threads: one
/// at a time.
class TraceFiles {
 public:
  /// Touches no file: the folder is made by the first add(). Throws: ArgumentError for options that mean nothing.
  TraceFiles(std::string folder, const Graph& graph, TraceFileOptions options = {}, Where where = Where::here());
  TraceFiles(const TraceFiles&) = delete;
  TraceFiles& operator=(const TraceFiles&) = delete;
  ~TraceFiles();

  /// Writes all events of the trace; not while a lane runs. Throws: DataError when the disk refuses: what was written
  /// before can be read all the same.
  void add(const Trace& trace, Where where = Where::here());

  /// Those that this one has written and that are there, the oldest first.
  const std::vector<std::string>& files() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sectionflow

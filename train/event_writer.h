#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "base/histogram.h"
#include "base/host_tensor.h"
#include "graph/graph.h"
#include "runtime/session.h"
#include "runtime/trace.h"
#include "sections/graph_section_manager.h"

namespace SF_API sectionflow {

/// How an event file is called, and which clock it goes by.
struct EventWriterOptions {
  /// The file is `<name>.out.tfevents.<seconds>.<host>.<process>.<number><suffix>`.
  std::string name = "events";
  std::string suffix{};
  /// Seconds since 1970; nullptr: the system's clock.
  std::function<double()> now_seconds = nullptr;
};

/// Writes what TensorBoard shows, into a new event file of a folder. Each event is in the file when its call returns,
/// so that TensorBoard shows a training while it runs; a process that dies leaves all but the event that it was
/// writing.
///
/// Tags name curves and pictures; what stands before the first '/' is their group. They are UTF-8 and not empty. Steps
/// may come in any order. Threads: any number at once.
///
/// Every call throws ArgumentError (SF-E431) for what an event file cannot hold, and DataError (SF-E432) when the disk
/// refuses. The file then ends with the event before; the next call may succeed again.
/// Source: tensorflow/core/util/events_writer.h and event.proto.
class EventWriter {
 public:
  /// Makes the folder where it is not there yet, and the file.
  explicit EventWriter(const std::string& folder, EventWriterOptions options = {}, Where where = Where::here());
  EventWriter(EventWriter&&) noexcept;
  EventWriter& operator=(EventWriter&&) noexcept;
  ~EventWriter();

  const std::string& path() const;

  /// A training begins, or goes on, with this step: of what earlier files of the folder have, viewers drop that step
  /// and what is behind it, which a training that was killed behind its last checkpoint makes again.
  void start(std::int64_t step, Where where = Where::here());
  /// A point of a curve; NaN and infinity are written as they are. TensorBoard keeps f32.
  void scalar(const std::string& tag, double value, std::int64_t step, Where where = Where::here());
  /// Points of several curves, by their tags, as one event.
  void scalars(const std::map<std::string, double>& values, std::int64_t step, Where where = Where::here());
  /// How values are distributed at a step. Where some were not finite, the counts of these are scalars beside it:
  /// `<tag>/nan`, `<tag>/infinite`.
  void histogram(const std::string& tag, const Histogram& histogram, std::int64_t step, Where where = Where::here());
  /// Shapes: image u8 [H, W, C], 1 to 4 channels.
  void image(const std::string& tag, const HostTensor& image, std::int64_t step, Where where = Where::here());

  /// The graph, each section as a scope, with the shapes of all values. One file has one.
  void graph(const Graph& graph, Where where = Where::here());
  /// What each operation took in the last execution of the trace, measured or planned: its time, all its executions
  /// in the cycle added up, and the bytes that it writes. TensorBoard colours the graph by it. A tag is used once.
  void run_metadata(const std::string& tag, const Trace& trace, const Graph& graph, std::int64_t step,
                    Where where = Where::here());

  /// GraphSectionManager::gradient_summaries as histograms `gradients of <section>/<variable>`; nothing where
  /// TrainingOptions::summaries is not set.
  void gradients(const GraphSectionManager& manager, std::int64_t step, Where where = Where::here());
  /// The values of all trainable variables (f32, f64 and bf16) as histograms `weights of <section>/<variable>`.
  /// Throws also: what Session::read throws.
  void weights(Session& session, std::int64_t step, Where where = Where::here());

  /// Has all events on the disk, so that a loss of power does not take them.
  void flush(Where where = Where::here());

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The name that a node has in TensorBoard: its section as the outermost scope, and '_' in place of what TensorBoard
/// does not take in names. Nodes of different names have different ones. By number.
std::vector<std::string> event_names(const Graph& graph);

}  // namespace sectionflow

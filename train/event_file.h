#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "base/histogram.h"
#include "base/shape.h"

namespace SF_API sectionflow {

/// A point of a curve, by EventWriter::scalar.
struct LoggedScalar {
  std::string tag{};
  float value = 0;
};
/// By EventWriter::histogram.
struct LoggedHistogram {
  std::string tag{};
  Histogram histogram{};
};
/// By EventWriter::image.
struct LoggedImage {
  std::string tag{};
  std::int64_t height = 0, width = 0, channels = 0;
  std::string encoded{};  ///< the bytes of an image file, PNG from EventWriter; nobody has looked into them
};

/// A node of a graph, by the names that TensorBoard has (event_names).
struct LoggedNode {
  std::string name{}, op{}, device{};
  std::vector<std::string> inputs{};   ///< "a", "a:1", "^a"
  std::vector<Shape> output_shapes{};  ///< as far as the file tells
  std::string source{};                ///< "model.cpp:84", where it is known
};

/// What one operation took in one execution.
struct LoggedExecution {
  std::string node{}, label{};
  std::int64_t start_us = 0, duration_us = 0;
  std::int64_t output_bytes = 0, peak_bytes = 0, bytes_in_use = 0;
};
/// What one device has executed.
struct LoggedDevice {
  std::string name{};
  std::vector<LoggedExecution> executions{};
};
/// By EventWriter::run_metadata.
struct LoggedRun {
  std::string tag{};
  std::vector<LoggedDevice> devices{};
};

/// One record of an event file. What other writers put there besides is left out.
struct LoggedEvent {
  double wall_time = 0;  ///< seconds since 1970
  std::int64_t step = 0;
  std::string file_version{};  ///< of the first
  std::vector<LoggedScalar> scalars{};
  std::vector<LoggedHistogram> histograms{};
  std::vector<LoggedImage> images{};
  std::optional<std::vector<LoggedNode>> graph{};
  std::optional<LoggedRun> run{};
  bool is_start = false;  ///< by EventWriter::start
};

/// The events of a file of EventWriter's or TensorFlow's, in their order. A last record that is cut off is left out, as
/// in a file that is being written. The file is not trusted: what is damaged or of another format is refused, and no
/// more than 200 times its bytes are taken. Throws: DataError: SF-E407 for a damaged record, SF-E430 for a file or a
/// record that holds no events, SF-E400 for one that cannot be read.
std::vector<LoggedEvent> read_events(const std::string& path, Where where = Where::here());

}  // namespace sectionflow

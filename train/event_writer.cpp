#include "train/event_writer.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <cmath>
#include <filesystem>
#include <limits>
#include <mutex>
#include <utility>

#include "base/append_file.h"
#include "base/utf8.h"
#include "base/whole_file.h"
#include "data/png_writer.h"
#include "data/tfrecord.h"
#include "runtime/step_events.h"
#include "train/event_messages.h"

namespace sectionflow {
namespace {

double system_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  std::string text = valid_utf8(name.data());
  for (char& letter : text) {
    if (letter == '/') letter = '_';
  }
  return text.empty() ? "localhost" : text;
}

/// No other writer has this path, here or in another process.
std::filesystem::path new_path(const std::filesystem::path& folder, const EventWriterOptions& options, double seconds) {
  static std::atomic<int> number{0};
  const auto whole = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 9'999'999'999.0));
  std::string digits = std::to_string(whole);
  digits.insert(0, 10 - digits.size(), '0');
  return folder / text_of(options.name, ".out.tfevents.", digits, ".", host_name(), ".", getpid(), ".", number++,
                          options.suffix);
}

std::filesystem::path made_folder(const std::string& folder) {
  check_path(folder, "EventWriter");
  make_folder(folder, "EventWriter", ErrorCode::event_write);
  return folder;
}

void check_tag(const std::string& call, const std::string& tag) {
  SF_CHECK_CODE(!tag.empty() && is_utf8(tag), ArgumentError, ErrorCode::event_content, call, ": the tag '",
                valid_utf8(tag), "' is ", tag.empty() ? "empty" : "no UTF-8", hint("give it a name as 'loss/train'"));
}

void check_histogram(const std::string& tag, const Histogram& histogram) {
  bool is_sound = histogram.bucket_limits.size() == histogram.bucket_counts.size();
  for (std::size_t i = 1; is_sound && i < histogram.bucket_limits.size(); ++i) {
    is_sound = histogram.bucket_limits[i - 1] < histogram.bucket_limits[i];
  }
  SF_CHECK_CODE(is_sound, ArgumentError, ErrorCode::event_content, "EventWriter::histogram '", tag,
                "': ", histogram.bucket_limits.size(), " limits and ", histogram.bucket_counts.size(),
                " counts of buckets; wanted as many of each, and rising limits", hint("take histogram_of"));
}

void set_histogram(const Histogram& histogram, wire::HistogramProto& out) {
  out.set_min(histogram.min);
  out.set_max(histogram.max);
  out.set_num(static_cast<double>(histogram.num));
  out.set_sum(histogram.sum);
  out.set_sum_squares(histogram.sum_squares);
  for (const double limit : histogram.bucket_limits) out.add_bucket_limit(limit);
  for (const double count : histogram.bucket_counts) out.add_bucket(count);
  // Readers count on a bucket.
  if (!histogram.bucket_limits.empty()) return;
  out.add_bucket_limit(std::numeric_limits<double>::max());
  out.add_bucket(static_cast<double>(histogram.num));
}

void add_scalar(const std::string& tag, double value, wire::Summary& summary) {
  wire::Summary::Value& out = *summary.add_value();
  out.set_tag(tag);
  out.set_simple_value(static_cast<float>(value));
}

void add_histogram(const std::string& tag, const Histogram& histogram, wire::Summary& summary) {
  check_tag("EventWriter::histogram", tag);
  check_histogram(tag, histogram);
  wire::Summary::Value& out = *summary.add_value();
  out.set_tag(tag);
  set_histogram(histogram, *out.mutable_histo());
  if (histogram.num_nan > 0) add_scalar(tag + "/nan", static_cast<double>(histogram.num_nan), summary);
  if (histogram.num_infinite > 0) add_scalar(tag + "/infinite", static_cast<double>(histogram.num_infinite), summary);
}

/// "gradients of section 2 'head'/head/kernel": a slash in a section's name would end the group there.
std::string variable_tag(const char* what, const Node& variable) {
  std::string section = section_name(variable.graph(), variable.group());
  for (char& letter : section) {
    if (letter == '/') letter = '_';
  }
  return valid_utf8(text_of(what, variable.group() == kNoGroup ? " " : " of ", section, "/", variable.name()));
}

template <class T>
Histogram histogram_of_values(const HostTensor& tensor) {
  const auto values = tensor.values<T>();
  std::vector<float> floats(values.begin(), values.end());
  return histogram_of(floats);
}

}  // namespace

struct EventWriter::State {
  // Hidden, as are its lambdas then: of a class within an exported one they would be exported.
  [[gnu::visibility("hidden")]] State(const std::string& folder, const EventWriterOptions& options)
      : now_seconds(options.now_seconds ? options.now_seconds : system_seconds),
        path(new_path(made_folder(folder), options, now_seconds())),
        file(path, "EventWriter", ErrorCode::event_write),
        records([this](const char* bytes, std::size_t num_bytes) {
          file.append({bytes, num_bytes});
        }) {}

  /// Appends an event at the present time.
  void write(wire::Event& event, std::int64_t step) {
    const std::lock_guard lock(mutex);
    event.set_wall_time(now_seconds());
    event.set_step(step);
    records.write(message_bytes(event));
  }

  std::mutex mutex;
  std::function<double()> now_seconds;
  std::string path;
  AppendFile file;
  RecordWriter records;
};

EventWriter::EventWriter(const std::string& folder, EventWriterOptions options, Where where) {
  call_at(where, [&] {
    SF_CHECK_CODE(options.name.find('/') == std::string::npos && options.suffix.find('/') == std::string::npos,
                  ArgumentError, ErrorCode::event_content, "EventWriter: the name '", options.name, "' or the suffix '",
                  options.suffix, "' has a '/'", hint("name folders in the first argument"));
    state_ = std::make_unique<State>(folder, options);
    wire::Event first;
    first.set_file_version("brain.Event:2");
    state_->write(first, 0);
  });
}

EventWriter::EventWriter(EventWriter&&) noexcept = default;
EventWriter& EventWriter::operator=(EventWriter&&) noexcept = default;
EventWriter::~EventWriter() = default;

const std::string& EventWriter::path() const {
  return state_->path;
}

void EventWriter::start(std::int64_t step, Where where) {
  call_at(where, [&] {
    wire::Event event;
    event.mutable_session_log()->set_status(wire::SessionLog::START);
    state_->write(event, step);
  });
}

void EventWriter::scalar(const std::string& tag, double value, std::int64_t step, Where where) {
  call_at(where, [&] {
    check_tag("EventWriter::scalar", tag);
    wire::Event event;
    add_scalar(tag, value, *event.mutable_summary());
    state_->write(event, step);
  });
}

void EventWriter::scalars(const std::map<std::string, double>& values, std::int64_t step, Where where) {
  call_at(where, [&] {
    if (values.empty()) return;
    wire::Event event;
    for (const auto& [tag, value] : values) {
      check_tag("EventWriter::scalars", tag);
      add_scalar(tag, value, *event.mutable_summary());
    }
    state_->write(event, step);
  });
}

void EventWriter::histogram(const std::string& tag, const Histogram& histogram, std::int64_t step, Where where) {
  call_at(where, [&] {
    wire::Event event;
    add_histogram(tag, histogram, *event.mutable_summary());
    state_->write(event, step);
  });
}

void EventWriter::image(const std::string& tag, const HostTensor& image, std::int64_t step, Where where) {
  call_at(where, [&] {
    check_tag("EventWriter::image", tag);
    wire::Event event;
    wire::Summary::Value& value = *event.mutable_summary()->add_value();
    value.set_tag(tag);
    wire::Summary::Image& out = *value.mutable_image();
    out.set_encoded_image_string(png_of(image, text_of("EventWriter::image '", tag, "'")));
    out.set_height(static_cast<std::int32_t>(image.shape()[0]));
    out.set_width(static_cast<std::int32_t>(image.shape()[1]));
    out.set_colorspace(static_cast<std::int32_t>(image.shape()[2]));
    state_->write(event, step);
  });
}

void EventWriter::graph(const Graph& graph, Where where) {
  call_at(where, [&] {
    wire::Event event;
    event.set_graph_def(message_bytes(graph_message(graph)));
    state_->write(event, 0);
  });
}

void EventWriter::run_metadata(const std::string& tag, const Trace& trace, const Graph& graph, std::int64_t step,
                               Where where) {
  call_at(where, [&] {
    check_tag("EventWriter::run_metadata", tag);
    wire::Event event;
    event.mutable_tagged_run_metadata()->set_tag(tag);
    event.mutable_tagged_run_metadata()->set_run_metadata(
        message_bytes(run_message(trace, graph, "EventWriter::run_metadata")));
    state_->write(event, step);
  });
}

void EventWriter::gradients(const GraphSectionManager& manager, std::int64_t step, Where where) {
  call_at(where, [&] {
    if (manager.gradient_summaries().empty()) return;
    const Graph& graph = manager.training_operations().front().node().graph();
    wire::Event event;
    for (const GradientSummary& summary : manager.gradient_summaries()) {
      add_histogram(variable_tag("gradients", graph.find(summary.variable)), summary.histogram,
                    *event.mutable_summary());
    }
    state_->write(event, step);
  });
}

void EventWriter::weights(Session& session, std::int64_t step, Where where) {
  call_at(where, [&] {
    wire::Event event;
    for (const Value& variable : session.graph().values(kTrainableVariables)) {
      const HostTensor tensor = session.read(variable, where);
      const Histogram histogram = tensor.dtype() == Dtype::f32   ? histogram_of(tensor.values<float>())
                                  : tensor.dtype() == Dtype::f64 ? histogram_of_values<double>(tensor)
                                                                 : histogram_of_values<BFloat16>(tensor);
      add_histogram(variable_tag("weights", variable.node()), histogram, *event.mutable_summary());
    }
    if (!event.has_summary()) return;
    state_->write(event, step);
  });
}

void EventWriter::flush(Where where) {
  call_at(where, [&] {
    const std::lock_guard lock(state_->mutex);
    state_->file.flush();
  });
}

}  // namespace sectionflow

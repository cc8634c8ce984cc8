#include "train/event_file.h"

#include <string_view>
#include <utility>

#include "data/tfrecord.h"
#include "data/wire_message.h"
#include "train/event.pb.h"

namespace sectionflow {
namespace {

// Which fields of event.proto are messages.
constexpr WireMessage kPlain{};
constexpr WireMessage::Field kValueFields[] = {{4, &kPlain}, {5, &kPlain}};
constexpr WireMessage kValue{kValueFields};
constexpr WireMessage::Field kSummaryFields[] = {{1, &kValue}};
constexpr WireMessage kSummary{kSummaryFields};
constexpr WireMessage::Field kEventFields[] = {{5, &kSummary}, {7, &kPlain}, {8, &kPlain}};
constexpr WireMessage kEvent{kEventFields};
constexpr WireMessage::Field kShapeFields[] = {{2, &kPlain}};
constexpr WireMessage kShape{kShapeFields};
constexpr WireMessage::Field kListFields[] = {{7, &kShape}};
constexpr WireMessage kList{kListFields};
constexpr WireMessage::Field kAttributeFields[] = {{1, &kList}};
constexpr WireMessage kAttribute{kAttributeFields};
constexpr WireMessage::Field kEntryFields[] = {{2, &kAttribute}};
constexpr WireMessage kEntry{kEntryFields};
constexpr WireMessage::Field kNodeFields[] = {{5, &kEntry}};
constexpr WireMessage kNode{kNodeFields};
constexpr WireMessage::Field kGraphFields[] = {{1, &kNode}, {4, &kPlain}};
constexpr WireMessage kGraphDef{kGraphFields};
constexpr WireMessage::Field kExecutionFields[] = {{6, &kPlain}};
constexpr WireMessage kExecution{kExecutionFields};
constexpr WireMessage::Field kDeviceFields[] = {{2, &kExecution}};
constexpr WireMessage kDevice{kDeviceFields};
constexpr WireMessage::Field kStatsFields[] = {{1, &kDevice}};
constexpr WireMessage kStats{kStatsFields};
constexpr WireMessage::Field kRunFields[] = {{1, &kStats}};
constexpr WireMessage kRunMetadata{kRunFields};

/// Reads records of one file as messages, and says which one is none.
class EventDecoder {
 public:
  explicit EventDecoder(const std::string& path) : path_(path) {}

  LoggedEvent decode(std::string_view record, const RecordReader& reader) {
    record_ = reader.index();
    offset_ = reader.offset();
    wire::Event event;
    parse(event, record, kEvent, "an event");
    LoggedEvent logged{.wall_time = event.wall_time(), .step = event.step(), .file_version = event.file_version()};
    // Of a file of other records some may look like events.
    if (record_ == 0 && !logged.file_version.starts_with("brain.Event:")) refuse("the version that events begin with");
    switch (event.what_case()) {
      case wire::Event::kSummary:
        for (wire::Summary::Value& value : *event.mutable_summary()->mutable_value()) add(value, logged);
        break;
      case wire::Event::kGraphDef:
        logged.graph = nodes_of(event.graph_def());
        break;
      case wire::Event::kSessionLog:
        logged.is_start = event.session_log().status() == wire::SessionLog::START;
        break;
      case wire::Event::kTaggedRunMetadata:
        logged.run =
            LoggedRun{event.tagged_run_metadata().tag(), devices_of(event.tagged_run_metadata().run_metadata())};
        break;
      default:
        break;
    }
    return logged;
  }

 private:
  [[noreturn]] void refuse(const char* wanted) const {
    throw DataError(error_text_of("read_events: '", path_, "': record ", record_, ", at byte ", offset_, ", is not ",
                                  wanted, hint("wanted is an event file as TensorBoard reads it (*.tfevents.*)")),
                    ErrorCode::event_file);
  }

  void parse(google::protobuf::MessageLite& message, std::string_view bytes, const WireMessage& layout,
             const char* wanted) const {
    if (!parse_message(message, bytes, layout)) refuse(wanted);
  }

  void add(wire::Summary::Value& value, LoggedEvent& logged) const {
    switch (value.value_case()) {
      case wire::Summary::Value::kSimpleValue:
        logged.scalars.push_back({value.tag(), value.simple_value()});
        return;
      case wire::Summary::Value::kHisto:
        logged.histograms.push_back({value.tag(), histogram_from(value.histo())});
        return;
      case wire::Summary::Value::kImage:
        logged.images.push_back({value.tag(), value.image().height(), value.image().width(), value.image().colorspace(),
                                 std::move(*value.mutable_image()->mutable_encoded_image_string())});
        return;
      case wire::Summary::Value::VALUE_NOT_SET:
        return;
    }
  }

  Histogram histogram_from(const wire::HistogramProto& message) const {
    if (message.bucket_limit_size() != message.bucket_size()) refuse("a histogram with as many limits as counts");
    constexpr double kMost = 9e15;  // beyond, a double counts no longer
    if (!(message.num() >= 0 && message.num() <= kMost)) refuse("a histogram with a number of values");
    return {.min = message.min(),
            .max = message.max(),
            .num = static_cast<std::int64_t>(message.num()),
            .sum = message.sum(),
            .sum_squares = message.sum_squares(),
            .bucket_limits = {message.bucket_limit().begin(), message.bucket_limit().end()},
            .bucket_counts = {message.bucket().begin(), message.bucket().end()}};
  }

  /// Nothing for a shape that is none of ours: of unknown rank, or of very many dimensions.
  static std::optional<Shape> shape_from(const wire::TensorShapeProto& message) {
    if (message.unknown_rank() || message.dim_size() > Shape::kMaxRank) return std::nullopt;
    std::vector<std::int64_t> dims;
    for (const auto& dim : message.dim()) {
      if (dim.size() < kDynamic) return std::nullopt;
      dims.push_back(dim.size());
    }
    return Shape(std::move(dims));
  }

  std::vector<LoggedNode> nodes_of(const std::string& bytes) const {
    wire::GraphDef graph;
    parse(graph, bytes, kGraphDef, "a graph");
    std::vector<LoggedNode> nodes;
    for (const wire::NodeDef& node : graph.node()) {
      LoggedNode logged{.name = node.name(),
                        .op = node.op(),
                        .device = node.device(),
                        .inputs = {node.input().begin(), node.input().end()}};
      if (const auto shapes = node.attr().find("_output_shapes"); shapes != node.attr().end()) {
        for (const auto& message : shapes->second.list().shape()) {
          const auto shape = shape_from(message);
          if (!shape) break;
          logged.output_shapes.push_back(*shape);
        }
      }
      if (const auto source = node.attr().find("source"); source != node.attr().end()) {
        logged.source = source->second.s();
      }
      nodes.push_back(std::move(logged));
    }
    return nodes;
  }

  static LoggedExecution execution_from(const wire::NodeExecStats& message) {
    LoggedExecution logged{.node = message.node_name(),
                           .label = message.timeline_label(),
                           .start_us = message.all_start_micros(),
                           .duration_us = message.all_end_rel_micros()};
    for (const wire::AllocatorMemoryUsed& memory : message.memory()) {
      logged.output_bytes = memory.total_bytes();
      logged.peak_bytes = memory.peak_bytes();
      logged.bytes_in_use = memory.allocator_bytes_in_use();
    }
    return logged;
  }

  std::vector<LoggedDevice> devices_of(const std::string& bytes) const {
    wire::RunMetadata run;
    parse(run, bytes, kRunMetadata, "what a run took");
    std::vector<LoggedDevice> devices;
    for (const wire::DeviceStepStats& device : run.step_stats().dev_stats()) {
      devices.push_back({.name = device.device()});
      for (const wire::NodeExecStats& node : device.node_stats()) {
        devices.back().executions.push_back(execution_from(node));
      }
    }
    return devices;
  }

  std::string path_;
  std::int64_t record_ = 0;
  std::uint64_t offset_ = 0;
};

}  // namespace

std::vector<LoggedEvent> read_events(const std::string& path, Where where) {
  return call_at(where, [&] {
    RecordReader reader(path, {.compression = Compression::none, .allow_torn_end = true});
    EventDecoder decoder(path);
    std::vector<LoggedEvent> events;
    while (const auto record = reader.next()) events.push_back(decoder.decode(*record, reader));
    return events;
  });
}

}  // namespace sectionflow

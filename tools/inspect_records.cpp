// Files of records: examples to learn from, and events for TensorBoard.

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/bytes.h"
#include "base/error.h"
#include "base/text_table.h"
#include "data/example.pb.h"
#include "data/tfrecord.h"
#include "data/tfrecord_source.h"
#include "data/wire_message.h"
#include "tools/converted_parts.h"
#include "tools/inspection.h"
#include "train/event_file.h"

namespace sectionflow {
namespace {

/// "int64 [1]: 7", "bytes [1]: 784 B", "float [3]: 0.5, 1, 2, ..."
std::string feature_text(const wire::Feature& feature) {
  constexpr int kShown = 4;
  const auto listed = [&](const char* kind, int size, const auto& element) {
    std::string text = text_of(kind, " [", size, "]: ");
    for (int i = 0; i < std::min(size, kShown); ++i) text += (i > 0 ? ", " : "") + element(i);
    return text + (size > kShown ? ", ..." : "");
  };
  switch (feature.kind_case()) {
    case wire::Feature::kBytesList:
      return listed("bytes", feature.bytes_list().value_size(), [&](int i) {
        const std::string& bytes = feature.bytes_list().value(i);
        const bool is_word = bytes.size() <= 16 && std::all_of(bytes.begin(), bytes.end(), [](unsigned char letter) {
                               return letter >= 0x20 && letter < 0x7f;
                             });
        return is_word ? "'" + bytes + "'" : bytes_text(bytes.size());
      });
    case wire::Feature::kFloatList:
      return listed("float", feature.float_list().value_size(),
                    [&](int i) { return text_of(feature.float_list().value(i)); });
    case wire::Feature::kInt64List:
      return listed("int64", feature.int64_list().value_size(),
                    [&](int i) { return text_of(feature.int64_list().value(i)); });
    default:
      return "empty";
  }
}

/// The tf.train.Example of a record; nothing where it is none.
std::optional<wire::Example> example_of(std::string_view record) {
  std::optional<wire::Example> example(std::in_place);
  if (!parse_message(*example, record, kExampleMessage)) example.reset();
  return example;
}

/// The features of a record by name.
std::map<std::string, std::string> features_of(const wire::Example& example) {
  std::map<std::string, std::string> features;
  for (const auto& [name, feature] : example.features().feature()) features[name] = feature_text(feature);
  return features;
}

/// What has been told of one tag in the course of a training.
struct Curve {
  std::int64_t points = 0, last_step = 0;
  double last = 0, smallest = 0, largest = 0;

  void add(std::int64_t step, double value) {
    smallest = points == 0 ? value : std::min(smallest, value);
    largest = points == 0 ? value : std::max(largest, value);
    ++points;
    last_step = step;
    last = value;
  }
};

/// Counts the class of a record, where it has one.
void count_class(const wire::Example& example, ClassCounts& classes) {
  const auto& features = example.features().feature();
  const auto label = features.find("image/class/label"), text = features.find("image/class/text");
  if (label == features.end() || label->second.int64_list().value_size() != 1) return;
  const bool has_text = text != features.end() && text->second.bytes_list().value_size() == 1;
  classes.add(label->second.int64_list().value(0), has_text ? text->second.bytes_list().value(0) : "");
}

/// What there is in files of records.
struct RecordCounts {
  std::int64_t records = 0;
  std::size_t bytes = 0, longest = 0;
  std::map<std::string, std::string> features{};  ///< of the first
  ClassCounts classes{};

  void add(const std::filesystem::path& path) {
    RecordReader reader(path);
    while (const auto record = reader.next()) {
      const std::optional<wire::Example> example = example_of(*record);
      if (records == 0 && example) features = features_of(*example);
      if (example) count_class(*example, classes);
      ++records;
      bytes += record->size();
      longest = std::max(longest, record->size());
    }
  }
};

Inspection inspection_of(const RecordCounts& counts) {
  const auto& [records, bytes, longest, features, classes] = counts;
  Inspection inspection;
  inspection.text = counted(static_cast<std::size_t>(records), "record") + ", " + bytes_text(bytes) + ", the longest " +
                    bytes_text(longest) + "; every checksum is right\n";
  Json json_features = Json::object();
  if (!features.empty()) inspection.text += "features of the first record:\n";
  for (const auto& [name, text] : features) {
    inspection.text += "  " + printable(name) + "  " + text + "\n";
    json_features[name] = text;
  }
  if (records > 0 && features.empty()) inspection.text += "the first record is no tf.train.Example\n";
  inspection.text += classes.text();
  inspection.json = {{"records", records},          {"record_bytes", bytes},     {"longest_record_bytes", longest},
                     {"checksums_are_right", true}, {"features", json_features}, {"classes", classes.json()}};
  return inspection;
}

}  // namespace

Inspection inspect_tfrecord(const std::filesystem::path& path) {
  RecordCounts counts;
  counts.add(path);
  return inspection_of(counts);
}

Inspection inspect_tfrecord_files(const std::filesystem::path& path) {
  check_complete(path);
  RecordCounts all{.classes = ClassCounts(read_class_names(path))};
  TextTable table({"file", "records", "bytes"});
  Json rows = Json::array();
  for (const std::filesystem::path& file : files_in(path)) {
    const RecordCounts before = all;
    all.add(file);
    const std::string name = file.filename().string();
    const std::int64_t records = all.records - before.records;
    const std::size_t bytes = all.bytes - before.bytes;
    table.add_row({printable(name), std::to_string(records), bytes_text(bytes)});
    rows.push_back({{"file", name}, {"records", records}, {"record_bytes", bytes}});
  }
  Inspection inspection = inspection_of(all);
  inspection.text = table.text() + inspection.text;
  inspection.json["files"] = rows;
  return inspection;
}

Inspection inspect_events(const std::filesystem::path& path) {
  std::map<std::string, Curve> curves;
  std::map<std::string, std::int64_t> histograms, images;
  bool has_graph = false;
  const std::vector<LoggedEvent> events = read_events(path.string());
  for (const LoggedEvent& event : events) {
    for (const LoggedScalar& scalar : event.scalars) {
      curves[scalar.tag].add(event.step, static_cast<double>(scalar.value));
    }
    for (const LoggedHistogram& histogram : event.histograms) ++histograms[histogram.tag];
    for (const LoggedImage& image : event.images) ++images[image.tag];
    has_graph = has_graph || event.graph.has_value();
  }
  Inspection inspection;
  TextTable table({"scalar", "points", "last step", "last", "smallest", "largest"});
  Json scalars = Json::array();
  for (const auto& [tag, curve] : curves) {
    table.add_row({printable(tag), std::to_string(curve.points), std::to_string(curve.last_step), text_of(curve.last),
                   text_of(curve.smallest), text_of(curve.largest)});
    scalars.push_back({{"tag", tag}, {"points", curve.points}, {"last_step", curve.last_step}, {"last", curve.last}});
  }
  if (!curves.empty()) inspection.text += table.text();
  inspection.text += counted(events.size(), "event") + ", " + counted(curves.size(), "scalar") + ", " +
                     counted(histograms.size(), "histogram") + ", " + counted(images.size(), "image") +
                     (has_graph ? ", a graph\n" : "\n");
  inspection.json = {{"events", events.size()},
                     {"scalars", scalars},
                     {"histograms", histograms},
                     {"images", images},
                     {"has_graph", has_graph}};
  return inspection;
}

Inspection inspect_event_files(const std::filesystem::path& path) {
  Inspection inspection;
  TextTable table({"event file", "bytes", "events", "scalars", "last step"});
  Json rows = Json::array();
  for (const std::filesystem::path& file : event_files_in(path)) {
    const std::string name = file.lexically_relative(path).string();
    const std::vector<LoggedEvent> events = read_events(file.string());
    std::set<std::string> tags;
    std::int64_t last_step = 0;
    for (const LoggedEvent& event : events) {
      for (const LoggedScalar& scalar : event.scalars) tags.insert(scalar.tag);
      last_step = std::max(last_step, event.step);
    }
    const std::uintmax_t bytes = std::filesystem::file_size(file);
    table.add_row({printable(name), bytes_text(bytes), std::to_string(events.size()), std::to_string(tags.size()),
                   std::to_string(last_step)});
    rows.push_back(
        {{"file", name}, {"bytes", bytes}, {"events", events.size()}, {"scalars", tags}, {"last_step", last_step}});
  }
  inspection.text = table.text() + counted(rows.size(), "event file") + "; inspect one to see its curves\n";
  inspection.json["event_files"] = rows;
  return inspection;
}

}  // namespace sectionflow

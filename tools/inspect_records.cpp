// Files of records: examples to learn from, and events for TensorBoard.

#include <algorithm>
#include <map>

#include "base/bytes.h"
#include "base/error.h"
#include "compare/text_table.h"
#include "data/example.pb.h"
#include "data/tfrecord.h"
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

/// The features of a record by name; nothing where it is no tf.train.Example.
std::map<std::string, std::string> features_of(std::string_view record) {
  wire::Example example;
  std::map<std::string, std::string> features;
  if (!example.ParseFromArray(record.data(), static_cast<int>(std::min<std::size_t>(record.size(), 1U << 30U)))) {
    return features;
  }
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

}  // namespace

Inspection inspect_tfrecord(const std::filesystem::path& path) {
  RecordReader reader(path);
  std::int64_t records = 0;
  std::size_t bytes = 0, longest = 0;
  std::map<std::string, std::string> features;
  while (const auto record = reader.next()) {
    if (records == 0) features = features_of(*record);
    ++records;
    bytes += record->size();
    longest = std::max(longest, record->size());
  }
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
  inspection.json = {{"records", records},
                     {"record_bytes", bytes},
                     {"longest_record_bytes", longest},
                     {"checksums_are_right", true},
                     {"features", json_features}};
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

}  // namespace sectionflow

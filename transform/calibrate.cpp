#include "transform/calibrate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/nearest.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "graph/traversal.h"
#include "transform/graph_copy.h"
#include "transform/magnitudes.h"

namespace sectionflow {
namespace {

const std::array<std::string, 3> kMethods = {"min_max", "percentile", "entropy"};
/// Levels of a magnitude in 8 bits with a sign, and of a number without one.
constexpr std::size_t kSignedLevels = 128, kUnsignedLevels = 256;

void check(const InferenceGraph& graph, const Dataset& batches, const CalibrationOptions& options) {
  SF_CHECK(graph.graph != nullptr, ArgumentError, "calibrate: the graph is none; wanted what freeze gives");
  check_outputs(*graph.graph, graph.outputs, "calibrate");
  check_is_for_inference(*graph.graph, nullptr, "calibrate");
  (void)values_of_ranges(*graph.graph, graph.ranges, "calibrate");
  SF_CHECK(static_cast<std::size_t>(options.method) < kMethods.size(), ArgumentError,
           "calibrate: the method is number ", static_cast<int>(options.method), " of an enumeration of ",
           kMethods.size());
  SF_CHECK(options.percentile > 0 && options.percentile <= 100, ArgumentError, "calibrate: percentile is ",
           options.percentile, "; wanted more than 0, at most 100");
  SF_CHECK(options.max_batches >= 0, ArgumentError, "calibrate: max_batches is ", options.max_batches,
           "; wanted 0, for all, or more");
  SF_CHECK(options.max_batches > 0 || batches.size() != kEndless, ArgumentError,
           "calibrate: the data set has no end, and max_batches is 0", hint("give max_batches, or leave repeat() out"));
}

/// What of a graph is looked at: tensors that follow from what is fed.
std::vector<Value> looked_at(const InferenceGraph& graph) {
  const std::vector<bool> needed = needed_nodes(*graph.graph, graph.outputs);
  const auto readers = reader_counts(*graph.graph, graph.outputs);
  std::vector<bool> is_fed(needed.size(), false);
  std::vector<Value> values;
  for (const NodeId id : topological_order(DependencyGraph(*graph.graph))) {
    const auto index = static_cast<std::size_t>(id);
    Node& node = graph.graph->node(id);
    const auto follows = [&](const Value& input) { return is_fed[static_cast<std::size_t>(input.node().id())]; };
    is_fed[index] = node.op().is_placeholder() || std::any_of(node.inputs().begin(), node.inputs().end(), follows);
    if (!needed[index] || !is_fed[index] || node.branch().exists()) continue;
    for (int i = 0; i < static_cast<int>(node.output_types().size()); ++i) {
      const Value value = node.output(i);
      if (graph.ranges.of(value)) continue;
      const bool is_float = value.dtype() == Dtype::f32 || value.dtype() == Dtype::bf16;
      if (is_float && readers[index][static_cast<std::size_t>(i)] > 0) values.push_back(value);
    }
  }
  return values;
}

/// Feeds a graph's placeholders from batches.
class FedBatches {
 public:
  FedBatches(const InferenceGraph& graph, const CalibrationOptions& options) {
    const std::vector<bool> needed = needed_nodes(*graph.graph, graph.outputs);
    std::vector<std::string> names;
    for (NodeId id = 0; id < graph.graph->num_nodes(); ++id) {
      Node& node = graph.graph->node(id);
      if (!node.op().is_placeholder() || is_training_flag(node)) continue;
      names.push_back(node.name());
      if (!needed[static_cast<std::size_t>(id)]) continue;
      const auto listed = options.tensors.find(node.name());
      tensors_.emplace_back(node.output(), listed != options.tensors.end() ? listed->second : node.name());
    }
    for (const auto& [placeholder, tensor] : options.tensors) {
      if (std::find(names.begin(), names.end(), placeholder) != names.end()) continue;
      const auto nearest = nearest_spelling(placeholder, names);
      throw ArgumentError(text_of("calibrate: the graph has no placeholder '", placeholder, "'",
                                  nearest ? text_of("; did you mean '", *nearest, "'?") : std::string()));
    }
  }

  Feeds of(const Example& batch) const {
    Feeds feeds;
    std::vector<std::string> names;
    for (const auto& [name, tensor] : batch) names.push_back(name);
    for (const auto& [placeholder, name] : tensors_) {
      const auto found = batch.find(name);
      if (found != batch.end()) {
        const Shape &fed = found->second.shape(), &wanted = placeholder.shape();
        SF_CHECK(fed.rank() + 1 != wanted.rank() || wanted[0] != kDynamic, ShapeError, "calibrate: the placeholder '",
                 placeholder.name(), "' is fed ", fed.text(), "; wanted ", placeholder.type().text(),
                 hint("end the data set with batch()"));
        feeds.emplace_back(placeholder, found->second);
        continue;
      }
      std::string list;
      for (const std::string& each : names) list += text_of(list.empty() ? "'" : ", '", each, "'");
      throw ArgumentError(
          error_text_of(
              "calibrate: the placeholder '", placeholder.name(), "' is fed from the tensor '", name,
              "', which the batches have not; they have ", list,
              hint("CalibrationOptions::tensors tells from which: {{\"" + placeholder.name() + "\", \"...\"}}")),
          ErrorCode::example_names);
    }
    return feeds;
  }

 private:
  std::vector<std::pair<Value, std::string>> tensors_;
};

/// What is known of a tensor's values.
struct Seen {
  float minimum = std::numeric_limits<float>::infinity(), maximum = -std::numeric_limits<float>::infinity();
  std::unique_ptr<Magnitudes> magnitudes{};

  template <class Element>
  void look_at(std::span<const Element> elements) {
    if (magnitudes) {
      for (const Element& element : elements) magnitudes->add(static_cast<float>(element));
      return;
    }
    for (const Element& element : elements) {
      minimum = std::min(minimum, static_cast<float>(element));
      maximum = std::max(maximum, static_cast<float>(element));
    }
  }
  void look_at(const HostTensor& tensor) {
    tensor.dtype() == Dtype::bf16 ? look_at(tensor.values<BFloat16>()) : look_at(tensor.values<float>());
  }
  bool is_empty() const { return minimum > maximum; }
  void begin_magnitudes() {
    if (is_empty()) return;
    magnitudes = std::make_unique<Magnitudes>(
        std::max(std::abs(static_cast<double>(minimum)), std::abs(static_cast<double>(maximum))));
  }
  ValueRange range(const CalibrationOptions& options) const {
    if (!magnitudes) return {minimum, maximum};
    const double threshold = options.method == CalibrationMethod::percentile
                                 ? magnitudes->percentile(options.percentile)
                                 : magnitudes->least_divergence(minimum < 0 ? kSignedLevels : kUnsignedLevels);
    const auto t = static_cast<float>(threshold);
    // A tensor whose values are all beyond the threshold on one side keeps the whole of that side's range.
    if (minimum > t || maximum < -t) return {minimum, maximum};
    return {std::max(minimum, -t), std::min(maximum, t)};
  }
};

/// Runs the batches and looks at the tensors.
class Calibration {
 public:
  Calibration(const InferenceGraph& graph, const Dataset& batches, const CalibrationOptions& options)
      : batches_(batches),
        options_(options),
        known_(graph.ranges),
        feeds_(graph, options),
        session_(*graph.graph, session_options(options)),
        values_(looked_at(graph)),
        seen_(values_.size()) {
    session_.set_value_checks({.nan = true, .infinity = true});
    session_.initialize();
  }

  ValueRanges ranges() {
    look();
    if (options_.method != CalibrationMethod::min_max) {
      for (Seen& each : seen_) each.begin_magnitudes();
      look();
    }
    ValueRanges ranges = known_;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (!seen_[i].is_empty()) ranges.set(values_[i], seen_[i].range(options_));
    }
    return ranges;
  }

 private:
  static SessionOptions session_options(const CalibrationOptions& options) {
    SessionOptions session = options.session;
    session.check_feeds = true;
    return session;
  }

  void look() {
    DatasetIterator iterator = batches_.iterate();
    std::int64_t count = 0;
    while (options_.max_batches == 0 || count < options_.max_batches) {
      const std::optional<Example> batch = iterator.next();
      if (!batch) break;
      look_at(feeds_.of(*batch));
      ++count;
    }
    SF_CHECK_CODE(count > 0, ArgumentError, ErrorCode::nothing_to_train_on,
                  "calibrate: the data set has no batch; wanted some that are like those of later");
  }

  /// The bytes of a value, where sizes that are not known are taken to be those of the feeds' first axis.
  static std::size_t bytes_of(const Value& value, const Feeds& feeds) {
    const bool counts = !feeds.empty() && feeds[0].data.type().shape.rank() > 0;
    double bytes = 4;
    for (const std::int64_t dim : value.shape().dims()) {
      bytes *= static_cast<double>(dim != kDynamic ? dim : counts ? feeds[0].data.type().shape[0] : 1);
    }
    return static_cast<std::size_t>(std::min(bytes, 1e15));
  }

  void look_at(const Feeds& feeds) {
    std::size_t begin = 0;
    while (begin < values_.size()) {
      std::size_t end = begin, bytes = 0;
      while (end < values_.size() && (end == begin || bytes + bytes_of(values_[end], feeds) <= options_.host_memory)) {
        bytes += bytes_of(values_[end++], feeds);
      }
      const std::vector<Value> some(values_.begin() + static_cast<std::ptrdiff_t>(begin),
                                    values_.begin() + static_cast<std::ptrdiff_t>(end));
      const std::vector<HostTensor> found = session_.run(some, feeds);
      for (std::size_t i = begin; i < end; ++i) seen_[i].look_at(found[i - begin]);
      begin = end;
    }
  }

  const Dataset& batches_;
  const CalibrationOptions& options_;
  const ValueRanges& known_;
  FedBatches feeds_;
  Session session_;
  std::vector<Value> values_;
  std::vector<Seen> seen_;  // a value each
};

}  // namespace

CalibrationMethod calibration_method(std::string_view name) {
  const auto found = std::find(kMethods.begin(), kMethods.end(), name);
  if (found == kMethods.end()) {
    const auto nearest = nearest_spelling(name, kMethods);
    throw ArgumentError(text_of("'", name, "' is no method of calibration",
                                nearest ? text_of("; did you mean '", *nearest, "'?") : std::string(),
                                " There are min_max, percentile, entropy"));
  }
  return static_cast<CalibrationMethod>(found - kMethods.begin());
}

ValueRanges calibrate(const InferenceGraph& graph, const Dataset& batches, const CalibrationOptions& options,
                      Where where) {
  return call_at(where, [&] {
    check(graph, batches, options);
    return Calibration(graph, batches, options).ranges();
  });
}

}  // namespace sectionflow

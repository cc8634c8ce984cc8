// Readers of what is kept beside weights and data: manifests, event files, graphs, profiles, positions, arguments.

#include <cstdint>
#include <limits>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "data/dataset.h"
#include "data/tensor_hashes.h"
#include "data/tfrecord.h"
#include "device/algorithm_choices.h"
#include "fit/plan_content.h"
#include "fit/plan_file.h"
#include "graph/graph_file.h"
#include "graph/layers.h"
#include "graph/ops/basic.h"
#include "graph/ops/dropout.h"
#include "graph/ops/layout.h"
#include "swap/profile.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/readers.h"
#include "train/checkpoint_manifest.h"
#include "train/event.pb.h"
#include "train/event_file.h"
#include "train/memory_share.h"
#include "train/saved_numbers.h"
#include "train/training_progress.h"
#include "transform/ranges_text.h"

namespace sectionflow::fuzz {
namespace {

Profile some_profile() {
  Profile profile;
  profile.kernel_seconds = {{"conv2d f32[2,3]", 1e-3}, {"relu \"x\"", 0.5}};
  return profile;
}
AlgorithmChoices some_choices() {
  return {.algorithms = {{"cudnn 9 conv", "17"}, {"cublas", "3 a"}}};
}

PlanContent some_plan() {
  ProgramPlan program{.facts = {.fingerprint = "0123456789abcdef",
                                .fetches = {"loss", "accuracy"},
                                .updates = 1,
                                .nodes = 3,
                                .operations = "fedcba9876543210",
                                .feeds = {{"images", "f32[6,8,8,3]"}}},
                      .device_peak = 1 << 20,
                      .notes = {"fit_budget: nothing is computed again"},
                      .half = 4};
  for (int i = 0; i < 3; ++i) program.instructions.push_back({.written = i});
  program.instructions.push_back({.kind = StepKind::copy_out, .value = 1, .offload = 0});
  program.instructions.push_back({.kind = StepKind::hold, .value = 1});
  program.instructions.push_back({.kind = StepKind::copy_in, .value = 1, .offload = 0});
  program.instructions.push_back({.written = 0, .pass = 1, .replay = true});
  return {.device = "cpu (2 threads)",
          .budgets = {1 << 21, 1 << 22, 0},
          .profile = "nominal",
          .model = {1, 12, "0011223344556677"},
          .programs = {program}};
}

/// An event of each kind that event files hold, the version first.
std::vector<std::string> some_events() {
  wire::Event version, points, graph, run;
  version.set_file_version("brain.Event:2");
  wire::Summary::Value* value = points.mutable_summary()->add_value();
  value->set_tag("loss");
  value->set_simple_value(0.5F);
  value = points.mutable_summary()->add_value();
  value->mutable_histo()->set_num(3);
  for (const double limit : {0.5, 1.0, std::numeric_limits<double>::max()}) {
    value->mutable_histo()->add_bucket_limit(limit);
    value->mutable_histo()->add_bucket(1);
  }
  wire::Summary::Image* image = points.mutable_summary()->add_value()->mutable_image();
  image->set_height(1);
  image->set_width(2);
  image->set_colorspace(3);
  image->set_encoded_image_string("png");
  wire::GraphDef nodes;
  wire::NodeDef* node = nodes.add_node();
  node->set_name("a/b");
  node->set_op("Relu");
  node->add_input("x:1");
  (*node->mutable_attr())["_output_shapes"].mutable_list()->add_shape()->add_dim()->set_size(3);
  graph.set_graph_def(nodes.SerializeAsString());
  wire::RunMetadata metadata;
  wire::NodeExecStats* execution = metadata.mutable_step_stats()->add_dev_stats()->add_node_stats();
  execution->set_node_name("a/b");
  execution->set_all_end_rel_micros(7);
  execution->add_memory()->set_total_bytes(5);
  run.mutable_tagged_run_metadata()->set_tag("step 1");
  run.mutable_tagged_run_metadata()->set_run_metadata(metadata.SerializeAsString());
  return {version.SerializeAsString(), points.SerializeAsString(), graph.SerializeAsString(), run.SerializeAsString()};
}

std::string records_of(const std::vector<std::string>& events) {
  std::string bytes;
  RecordWriter writer([&](const char* more, std::size_t count) { bytes.append(more, count); }, Compression::none);
  for (const std::string& event : events) writer.write(event);
  writer.finish();
  return bytes;
}

void read_event_bytes(const std::string& bytes) {
  const MemoryFile file(bytes);
  read_events(file.path().string());
}

std::string some_graph() {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 4, 4, 2});
  Value y;
  {
    const auto in_group = graph.enter_group(graph.new_group("section 0"));
    y = conv2d(x, {.features = 3, .name = "conv"});
    y = batch_norm(y);
    y = dropout(y, {.rate = 0.25F});
  }
  y = reshape(y, {-1, 48});
  (void)dense(y, {.features = 2, .name = "out"});
  (void)constant(graph, HostTensor::of<float>({3}, {1, 2, 3}), "three");
  return graph_text(graph);
}

/// One of data by number, and one of a stream, with stages that hold examples.
const std::vector<Dataset>& some_pipelines() {
  static const std::vector<Dataset> pipelines = [] {
    const auto example = [](std::int64_t number) {
      Example example;
      example.emplace("id", HostTensor::scalar(number));
      example.emplace("row", HostTensor(Dtype::u8, {1 + number % 5}));
      return example;
    };
    const auto generator = [example](std::int64_t number) -> std::optional<Example> {
      if (number >= 30) return std::nullopt;
      return example(number);
    };
    const auto changed = [](Example one, const MapContext& context) {
      one.at("row").values<std::uint8_t>()[0] = static_cast<std::uint8_t>(context.below(200, 0));
      return one;
    };
    const auto keep = [](const Example& one) { return one.at("id").item<std::int64_t>() % 7 != 3; };
    Example rows;
    rows.emplace("id", HostTensor(Dtype::i64, {20}));
    return std::vector<Dataset>{
        Dataset::from(std::move(rows)).shuffle({.seed = 2}).repeat(3).batch({.size = 3}).skip(1),
        Dataset::generate("numbers", generator)
            .filter(keep)
            .map(changed)
            .shuffle({.seed = 1, .buffer_bytes = 2000})
            .repeat()
            .batch({.size = 3, .pad = true, .bucket_boundaries = {3}, .bucket_by = "row"})};
  }();
  return pipelines;
}

void read_position(const std::string& bytes) {
  std::string refusal;
  for (const Dataset& dataset : some_pipelines()) {
    try {
      DatasetIterator iterator = dataset.iterate(bytes);
      for (int i = 0; i < 8 && iterator.next(); ++i) (void)iterator.position();
      return;
    } catch (const ArgumentError& error) {
      if (error.code() != ErrorCode::other_position) throw;
      refusal = error.what();
    }
  }
  throw DataError(refusal);
}

/// Texts that a person gives are refused by an ArgumentError.
template <class Read>
void read_argument(const Read& read) {
  try {
    read();
  } catch (const ArgumentError& error) {
    throw DataError(error.what());
  }
}

/// A text whose hash is another's is refused before anything of it is looked at: it gets its own.
template <class Read>
void read_hashed(const std::string& bytes, const Read& read) {
  const std::string body = bytes.substr(0, bytes.rfind(",\n \"xxh3\""));
  try {
    read(bytes);
  } catch (const DataError&) {
    read(body + ",\n \"xxh3\": \"" + text_hash(body) + "\"\n}\n");
  }
}

}  // namespace

Reader manifest_reader() {
  CheckpointManifest manifest{.step = 7,
                              .sequence = 3,
                              .data_position = "epoch 1",
                              .metrics = {{"loss", 0.25}},
                              .optimizers = {"apply_sgd"},
                              .file_bytes = 90,
                              .hashes = {{"w", "0123456789abcdef"}}};
  const std::string small = manifest_text(manifest);
  manifest.profile = some_profile();
  manifest.algorithms = some_choices();
  manifest.kept = {{"plan", some_plan().text()}};
  const auto read = [](const std::string& bytes) {
    read_hashed(bytes, [](const std::string& text) { parse_manifest(text, ""); });
  };
  return {"manifest", read, {small, manifest_text(manifest)}, 45, 64_KiB};
}

Reader events_reader() {
  return {"events", read_event_bytes, {records_of(some_events())}, 200, 2_MiB};
}

Reader event_reader() {
  // One record whose sums are its own, behind the first of a file.
  const std::vector<std::string> events = some_events();
  const auto read = [version = events[0]](const std::string& bytes) { read_event_bytes(records_of({version, bytes})); };
  return {"event", read, events, 200, 2_MiB};
}

Reader graph_reader() {
  const auto read = [](const std::string& bytes) {
    Graph graph;
    load_graph_text(graph, bytes);
    // What is loaded can be saved.
    (void)graph_text(graph);
  };
  return {"graph", read, {some_graph()}, 64, 1_MiB};
}

Reader ranges_reader() {
  ValueRanges ranges;
  ranges.set("images", {0, 1});
  ranges.set("block/add:1", {-0.1F, 3e38F});
  const auto read = [](const std::string& bytes) { (void)ranges_of_text(ranges_text(ranges_of_text(bytes))); };
  return {"ranges", read, {ranges_text(ranges), ranges_text({})}, 64, 64_KiB};
}

Reader profile_reader() {
  return {"profile",
          [](const std::string& bytes) { Profile::from_json(bytes, ""); },
          {some_profile().json(), Profile::nominal().json()},
          64,
          64_KiB};
}

Reader plan_reader() {
  const auto read = [](const std::string& bytes) {
    // What is read can be written, and is read as the same.
    read_hashed(bytes, [](const std::string& text) { (void)FitPlan::from_text(text, "").text(); });
  };
  return {"plan", read, {some_plan().text(), PlanContent{}.text()}, 100, 64_KiB};
}

Reader algorithms_reader() {
  return {"algorithms",
          [](const std::string& bytes) { AlgorithmChoices::from_json(bytes, ""); },
          {some_choices().json(), AlgorithmChoices{}.json()},
          64,
          64_KiB};
}

Reader position_reader() {
  std::vector<std::string> seeds;
  for (const Dataset& dataset : some_pipelines()) {
    DatasetIterator iterator = dataset.iterate();
    for (int i = 0; i < 6; ++i) {
      seeds.push_back(iterator.position());
      (void)iterator.next();
    }
  }
  return {"position", read_position, seeds, 64, 1_MiB};
}

Reader progress_reader() {
  TrainingProgress progress{.step = 12, .epoch = 2, .step_in_epoch = 3, .totals = {{"loss", 0.5}}};
  progress.data.set("3 120");
  progress.callbacks = {{"early", saved_numbers({1, -0.0, 3})}};
  const auto read = [](const std::string& bytes) {
    for (const auto& [name, text] : TrainingProgress::read(bytes).callbacks) read_numbers(text, kAnyCount, "it");
  };
  return {"progress", read, {progress.text()}, 64, 64_KiB};
}

Reader amount_reader() {
  const auto read = [](const std::string& bytes) { read_argument([&] { memory_share(bytes, {}); }); };
  return {"amount", read, {"512MiB", "1.5 GiB", "4096", "45B", "50%", "1e3%"}, 64, 16_KiB};
}

}  // namespace sectionflow::fuzz

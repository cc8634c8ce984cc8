// Inference graphs in files, and texts and files that nobody vouches for.

#include <gmock/gmock.h>

#include <array>
#include <random>

#include "data/safetensors.h"
#include "graph/graph_file.h"
#include "sectionflow.h"
#include "tests/fuzz/memory_file.h"
#include "tests/support/temporary_folder.h"
#include "tests/transform/frozen_case.h"

namespace sectionflow {
namespace {

using testing::HasSubstr;
using testing_support::FrozenCase;

TEST(InferenceFile, GivesTheGraphBack) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "model.safetensors", again = folder.path() / "again.safetensors";
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const FrozenCase it(seed);
    for (const char* transforms : {"", "fold_constants fold_batch_norms"}) {
      const InferenceGraph made = transform_graph(it.frozen, transforms);
      save_inference_graph(made, path);
      const InferenceGraph loaded = load_inference_graph(path);
      EXPECT_EQ(first_difference(it.of(loaded), it.of(made)), "") << it.trainable.model.text;
      save_inference_graph(loaded, again);
      EXPECT_EQ(bytes_of_file(path), bytes_of_file(again));
    }
  }
}

TEST(InferenceFile, HoldsItsConstantsAsTensorsOfTheirNames) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "model.safetensors";
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 32});
  const Value y = matmul(x, variable("w", fill(graph, {32, 32}, 0.5)));
  Session session(graph);
  session.initialize();
  save_inference_graph(freeze(session, {y}), path);
  const SafetensorsFile file = read_safetensors(path);
  ASSERT_EQ(file.tensors.size(), 1U);
  EXPECT_EQ(file.tensors[0].name, "w");
  EXPECT_EQ(file.tensors[0].tensor.values<float>()[5], 0.5F);
}

TEST(InferenceFile, IsRefusedWhereGraphAndTensorsDisagree) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "model.safetensors";
  Graph graph;
  const Value x = placeholder(graph, "x", {2}), y = relu(x);
  graph.add_to_collection(kOutputs, y);
  Graph none;
  (void)placeholder(none, "x", {2});
  const HostTensor two(Dtype::f32, {2}), three(Dtype::f32, {3});
  const auto refusal = [&](const std::vector<NamedView>& tensors, const Metadata& metadata) {
    write_safetensors(path, tensors, metadata);
    return whole_error_text<DataError>([&] { load_inference_graph(path); });
  };
  const Metadata whole = {{"sectionflow_graph", graph_text(graph)}};
  EXPECT_THAT(refusal({}, {}), HasSubstr("has no graph"));
  EXPECT_THAT(refusal({}, {{"sectionflow_graph", "{}"}}), HasSubstr("SF-E402"));
  EXPECT_THAT(refusal({{"x", three.view()}}, whole), HasSubstr("the tensor 'x' is f32[3], in the graph f32[2]"));
  EXPECT_THAT(refusal({{"z", two.view()}}, whole), HasSubstr("which its graph does not read"));
  EXPECT_THAT(refusal({{y.name(), two.view()}}, whole), HasSubstr("wanted a placeholder"));
  EXPECT_THAT(refusal({}, {{"sectionflow_graph", graph_text(none)}}), HasSubstr("has no outputs"));
  Graph variables;
  variables.add_to_collection(kOutputs, variable("w", fill(variables, {2}, 1.0)));
  EXPECT_THAT(refusal({}, {{"sectionflow_graph", graph_text(variables)}}), HasSubstr("has the variable 'w'"));
  EXPECT_THAT(whole_error_text<DataError>([&] { load_inference_graph(folder.path() / "absent"); }),
              HasSubstr("absent"));
}

/// Changes some letters: by others, by pieces of the text, by nothing.
std::string damaged(std::string text, std::mt19937_64& random, const std::string& letters) {
  const auto below = [&](std::size_t bound) { return bound == 0 ? 0 : random() % bound; };
  for (std::size_t change = 1 + below(3); change > 0 && !text.empty(); --change) {
    const std::size_t at = below(text.size());
    switch (below(4)) {
      case 0:
        text[at] = letters[below(letters.size())];
        break;
      case 1:
        text.erase(at, 1 + below(4));
        break;
      case 2:
        text.insert(at, 1, letters[below(letters.size())]);
        break;
      default:
        text.insert(at, text.substr(below(text.size()), below(12)));
    }
  }
  return text;
}

/// A small graph with what transforms look for.
struct SmallGraph {
  SmallGraph() {
    const Value x = placeholder(graph, "x", {kDynamic, 16});
    const Value y = batch_norm(dense(x, {.features = 17}), {.relu = true});
    Session session(graph);
    session.initialize();
    frozen = freeze(session, {dropout(y, {.rate = 0.5F})});
    frozen.ranges.set(x, {-1, 1});
  }
  /// The same with integers, and with the ranges from which these are.
  InferenceGraph eight_bits() const {
    HostTensor x(Dtype::f32, {4, 16});
    for (std::size_t i = 0; i < 64; ++i) x.values<float>()[i] = static_cast<float>(i) / 64;
    Example examples;
    examples.emplace("x", std::move(x));
    InferenceGraph made = transform_graph(frozen, "fold_constants fold_batch_norms fuse");
    made.ranges = calibrate(made, Dataset::from(std::move(examples)).batch({.size = 4}));
    return transform_graph(made, "quantize_nodes");
  }
  Graph graph;
  InferenceGraph frozen;
};

TEST(UntrustedTexts, OfTransformsLeaveTheGraphAsItIs) {
  const std::uint64_t seed = 1;
  std::mt19937_64 random(seed);
  const SmallGraph small;
  const std::string before = graph_text(*small.frozen.graph);
  const std::array<std::string, 2> texts = {
      "strip_unused_nodes remove_nodes(op=dropout, op=\"relu\") fold_batch_norms\nsort_by_execution_order",
      "fuse take_ranges fold_constants(max_bytes=100) quantize_weights(min_elements=16) pack_weights(batch=2, "
      "threads=1)"};
  int refused = 0;
  for (std::size_t i = 0; i < 5000; ++i) {
    const std::string each = damaged(texts.at(i % 2), random, "abcdefghi_ ()=,\"\n019\xff");
    try {
      EXPECT_EQ(transform_graph(small.frozen, each).outputs.size(), 1U);
    } catch (const ArgumentError&) {
      ++refused;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "seed " << seed << ", text " << i << ": " << error.what() << "\n" << each;
    }
  }
  EXPECT_GT(refused, 3000);
  EXPECT_EQ(graph_text(*small.frozen.graph), before);
}

TEST(UntrustedFiles, AreRefusedOrAreGraphs) {
  const std::uint64_t seed = 2;
  std::mt19937_64 random(seed);
  const SmallGraph small;
  const TemporaryFolder folder;
  const std::array<std::string, 2> paths = {folder.path() / "f32.safetensors", folder.path() / "integers.safetensors"};
  save_inference_graph(small.frozen, paths[0]);
  save_inference_graph(small.eight_bits(), paths[1]);
  const std::array<SafetensorsFile, 2> files = {read_safetensors(paths[0]), read_safetensors(paths[1])};
  EXPECT_THAT(files[1].metadata.at("sectionflow_graph"), HasSubstr("quantized_"));
  EXPECT_THAT(files[1].metadata, testing::Contains(testing::Key("sectionflow_ranges")));
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string bytes;
    const std::size_t which = i % 8 < 4 ? 0 : 1;
    const SafetensorsFile& file = files.at(which);
    const std::vector<NamedView> tensors = views_of(file.tensors);
    if (i % 2 == 0) {
      bytes = damaged(bytes_of_file(paths.at(which)), random, "0{}[]\",:a\xff");
    } else {
      // Hashes that are right, so that the graph itself is read.
      const FileSink sink{
          .append = [&](const void* part, std::size_t size) { bytes.append(static_cast<const char*>(part), size); },
          .overwrite_beginning =
              [&](const void* part, std::size_t size) {
                bytes.replace(0, size, static_cast<const char*>(part), size);
              }};
      std::vector<NamedType> types;
      for (const NamedView& each : tensors) types.push_back({each.name, each.tensor.type});
      const auto tensor_of = [&](const std::string& name) {
        return std::find_if(tensors.begin(), tensors.end(), [&](const auto& each) { return each.name == name; })
            ->tensor;
      };
      try {
        Metadata metadata = file.metadata;
        std::string& damaged_text = metadata.at(i % 4 == 1 ? "sectionflow_graph" : "sectionflow_ranges");
        damaged_text = damaged(damaged_text, random, "0{}[]\",:a19-");
        stream_safetensors(sink, types, tensor_of, metadata);
      } catch (const ArgumentError&) {
        continue;  // a text that is not UTF-8
      }
    }
    const fuzz::MemoryFile memory(bytes);
    try {
      (void)transform_graph(load_inference_graph(memory.path()), "strip_unused_nodes sort_by_execution_order");
    } catch (const DataError&) {
      ++refused;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "seed " << seed << ", file " << i << ": " << error.what();
    }
  }
  EXPECT_GT(refused, 3000);
}

}  // namespace
}  // namespace sectionflow

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "graph/graph.h"
#include "runtime/feeds.h"
#include "runtime/session.h"
#include "transform/ranges.h"

namespace SF_API sectionflow {

// Graphs for inference; docs/inference.md tells how they are made and used.
//
//   InferenceGraph frozen = freeze(session, {logits});
//   frozen = transform_graph(frozen, "fold_constants fold_batch_norms");
//   save_inference_graph(frozen, "digits.safetensors");

/// The collection of a graph that has what is asked of it, in that order.
inline constexpr std::string_view kOutputs = "outputs";

/// A graph of its own, which computes some outputs from what is fed and from constants: it has no variables, updates
/// nothing and draws no random numbers. Move-only. A session of it needs initialize() once, which brings the constants
/// to their places; after that they stay there, as variables do.
struct InferenceGraph {
  std::unique_ptr<Graph> graph;  ///< there in all that these functions give
  std::vector<Value> outputs;    ///< in the order in which they were asked for; also the graph's collection kOutputs
  ValueRanges ranges{};          ///< of tensors of the graph, as far as they are known

  /// The output, or the placeholder, of that name. Throws: ArgumentError with the nearest spelling.
  Value operator[](std::string_view name) const { return graph->find(name).output(); }
};

/// What becomes a constant besides the variables.
struct FreezeOptions {
  /// Placeholders that hold these values for good: `{is_training, false}`. What `Graph::training()` gives is false
  /// where nothing is said.
  Feeds feeds{};
};

/// The part of the session's graph that `outputs` need, in a graph of its own, where variables are constants of the
/// values that they have now. Names, sections and collections are kept, those of training left out. The session stays
/// as it is, and need not live on.
/// Throws: ArgumentError where `outputs` are none or of another graph, before Session::initialize, and where they need
/// what is no inference: an update of a variable, random numbers.
InferenceGraph freeze(Session& session, const std::vector<Value>& outputs, const FreezeOptions& options = {},
                      Where where = Where::here());

/// The entry of a file's metadata that has the graph.
inline constexpr std::string_view kInferenceGraphKey = "sectionflow_graph";

/// Writes an inference graph to one safetensors file, which appears whole or not at all: its constants as tensors of
/// their names, and the graph itself, as graph_file.h writes it, among the metadata, with the ranges.
/// Throws: ArgumentError for what such files cannot hold, as weights that are packed, and for ranges of what is no
/// tensor of the graph; DataError where it cannot be written.
void save_inference_graph(const InferenceGraph& graph, const std::string& path, Where where = Where::here());

/// Reads it back: the same outputs, bit for bit. The file may come from anybody; all of it is checked. Throws:
/// DataError (SF-E402 for what is wrong with the graph in it) naming the file.
InferenceGraph load_inference_graph(const std::string& path, Where where = Where::here());

}  // namespace sectionflow

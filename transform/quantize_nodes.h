#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "transform/inference_graph.h"

namespace SF_API sectionflow {

/// What the transform quantize_nodes makes of one operation.
struct QuantizedNode {
  std::string name, op;
  bool is_quantized = false;  ///< computes with 8 bits
  std::string why{};          ///< where it does not: why it stays f32
};

/// What quantize_nodes makes of the operations of a graph, in their order: of all that compute something.
struct QuantizeReport {
  std::vector<QuantizedNode> nodes{};
  /// Those that compute with 8 bits.
  int num_quantized() const;
  /// A line for each operation that stays f32, with the reason, and one with the counts.
  std::string text() const;
};

/// Tells it without doing it, whether or not the ranges are there. Throws: as transform_graph for a graph that is none
/// or not for inference.
QuantizeReport quantize_report(const InferenceGraph& graph, Where where = Where::here());

}  // namespace sectionflow

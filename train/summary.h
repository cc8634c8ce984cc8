#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/export.h"
#include "base/host_tensor.h"
#include "graph/graph.h"
#include "runtime/feeds.h"

namespace SF_API sectionflow {

/// A layer of a summary: the operations of a name scope that read variables together, or a single operation. Or a
/// result, as a metric is one, with all that is computed for it alone.
struct SummaryRow {
  std::string layer;                 ///< the scope's name, or the operation's
  std::string op;                    ///< of the operation that gives its output, as in "conv2d"
  TensorType output;                 ///< dimensions that are still not known stay so
  std::int64_t parameters = 0;       ///< numbers in trainable variables that no row before it reads
  std::int64_t other_variables = 0;  ///< numbers in other variables, such as moving averages
  std::size_t activation_bytes = 0;  ///< of all that its operations give; 0 for what is not known
  std::string section;               ///< "section 0 'stem'"; empty outside of all
  /// Whether it is a result: a metric, a prediction, the end of a loss, which no other operation reads, of the training
  /// neither. Nobody knows before a training is added.
  bool is_result = false;
  std::int64_t num_operations = 0;  ///< that it stands for
};

/// What a model is made of.
struct GraphSummary {
  std::vector<SummaryRow> rows{};    ///< in the order of the model's making
  std::int64_t parameters = 0;       ///< numbers in all trainable variables
  std::int64_t other_variables = 0;  ///< numbers in the others, optimisers' slots included
  std::size_t variable_bytes = 0;    ///< of both
  std::size_t activation_bytes = 0;  ///< of the forward pass, everything kept
  bool is_complete = true;           ///< false where dimensions are not known, so that bytes are missing

  /// A table for people.
  std::string text() const;
};

/// What of a model's shapes a summary is told.
struct SummaryOptions {
  std::int64_t batch = 1;  ///< for the first dimension of placeholders where that is unknown
  FeedTypes types{};       ///< of placeholders; goes before `batch`
};

/// Layer, output, parameters, activations and section of a model: of its forward operations, metrics and losses
/// included, of which each result has one row; gradients, updates and initial values are left out. Nothing is planned:
/// what a step takes of device memory GraphSectionManager::plan and Session::plan tell. Throws: ArgumentError for a
/// batch below 1 and a type of what is no placeholder; ShapeError for shapes that do not fit the graph.
GraphSummary summary(const Graph& graph, const SummaryOptions& options = {}, Where where = Where::here());

}  // namespace sectionflow

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "transform/inference_graph.h"

namespace SF_API sectionflow {

/// Applies transforms, one after the other, and gives the graph that comes of it; the one that was given stays as it
/// is. `transforms` is a text as TensorFlow's transform_graph takes it: names with arguments in brackets,
///
///   strip_unused_nodes remove_nodes(op=dropout) fold_constants(max_bytes=1048576) fold_batch_norms
///
/// between blanks or line ends; an argument may be given several times where several are taken, and its value may stand
/// between double quotes. docs/inference.md says what each does. All of the text is checked before the first is
/// applied. Throws: ArgumentError for a text that is not of this form (with the place in it), for names of transforms
/// and arguments that are none (with the nearest), for values that do not fit, and for a graph that is not for
/// inference: see freeze.
InferenceGraph transform_graph(const InferenceGraph& graph, std::string_view transforms, Where where = Where::here());
/// The same of a graph that was built for inference, with what is asked of it.
InferenceGraph transform_graph(const Graph& graph, const std::vector<Value>& outputs, std::string_view transforms,
                               Where where = Where::here());

/// The names of all transforms.
std::vector<std::string> transform_names();

}  // namespace sectionflow

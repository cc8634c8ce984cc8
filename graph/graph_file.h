#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

// Graphs in files, as JSON; docs/graph_files.md describes the format and its limits.
//
//   save_graph(graph, "model.json");                                // where the model was built
//
//   Graph loaded;
//   load_graph(loaded, "model.json");                               // elsewhere
//   const Value images = loaded.find("images").output();            // all names are the same
//   std::vector<Operation> training = loaded.operations(kTrainingOperations);
//   for (Operation update : loaded.operations(kUpdateOperations)) training.push_back(update);
//   for (Operation sum : loaded.operations(kAccumulationOperations)) training.push_back(sum);  // of micro-batches
//   Session session(loaded, options);
//   session.initialize();
//   session.run({{images, batch.images}, ...}, {.targets = training});
//
// A loaded graph is the saved one in all that counts: it has the same nodes under the same numbers and names, and
// trains bit for bit alike. The values of variables are no part of it; train/checkpoint.h saves them.

/// The graph as text. The same graph always has the same text, and a graph that was loaded has the text that it was
/// loaded from, if that was written here.
/// Throws: ArgumentError for what a file cannot hold: names that are not UTF-8 or longer than 4096 bytes, an operation
/// that reads one made after it, and more than 100 MB in all (constants count; feed large tensors instead).
std::string graph_text(const Graph& graph);

/// A number that another graph has by chance alone: of what graph_text has, constants included, without its limits.
std::uint64_t graph_digest(const Graph& graph);
/// The same of some of its nodes, by rising number.
std::uint64_t graph_digest(const Graph& graph, const std::set<NodeId>& nodes);

/// Writes graph_text to a file, which appears whole or not at all. Throws: as graph_text, and DataError.
void save_graph(const Graph& graph, const std::string& path, Where where = Where::here());

/// Makes `graph`, which must be empty, the one of the text. Its nodes get their names, groups, phases, random ordinals,
/// control edges and entries of collections; `where` becomes the place of each. The text may come from anybody: all of
/// it is checked, by the shape rules too.
/// Throws: ArgumentError for a graph that is not empty; DataError (SF-E402) for a text that is damaged or none of a
/// graph, with the fact "at": the place within it, as in "nodes[12].options.stride". The graph is then still empty.
void load_graph_text(Graph& graph, std::string_view text, Where where = Where::here());

/// The same from a file. Throws: as load_graph_text, with the fact "file", and DataError for a file that cannot be
/// read.
void load_graph(Graph& graph, const std::string& path, Where where = Where::here());

}  // namespace sectionflow

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "planning/problem.h"

namespace sectionflow::planning {

/// A problem of operations with one output each, as it stands in a file or comes from a generator. Value i is the
/// output of operation i; nothing is given, everything may be executed again and moved.
struct Instance {
  std::string name;
  Problem problem;
  std::vector<std::string> ids;  ///< of each operation, as JSON writes them: 7, "conv1"
  std::vector<bool> backward;    ///< of each operation: whether it belongs to the backward pass
};

/// Reads a graph in the node-link form of networkx, of one of two kinds, as published with planners:
///
/// 1. nodes {id, name, cost_cpu, cost_ram, backward}, of which the last may be absent;
/// 2. nodes {name, out_cost, duration}, `name` being the id unless there is an `id`.
///
/// Times are numbers of at least 0 in any unit; sizes are whole numbers, in any unit. Links have `source` and `target`,
/// or "0" and "1", and stand under `links` or `edges`. Operations stand in the order of `graph.order`, a list of all
/// ids, or, where that is absent, of their ids if these are numbers, otherwise of the nodes; where a link runs against
/// that, as soon after as links allow. What else the file has is not looked at.
///
/// Throws: DataError, which names the node, for a file that is absent, larger than 64 MiB, no such graph, or a graph
/// with a cycle, with more than 200,000 nodes or 2,000,000 links, an id twice or missing, a link to nowhere, a number
/// that is negative, missing or not finite, a size that is not whole, sizes or times that add up to too much, or an
/// order that is none.
Instance read_instance(const std::filesystem::path& path);

/// Writes kind 1, with operations' indices for ids. Throws: ArgumentError, which names the operation, for a problem
/// that is no instance as above; DataError as write_whole_file.
void write_instance(const std::filesystem::path& path, const Instance& instance);

}  // namespace sectionflow::planning

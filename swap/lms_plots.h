#pragma once

#include "swap/lms_simulator.h"

namespace sectionflow {

/// How many pairs of a node and a distinct reader there are of each distance.
std::map<int, int> edge_distances(const Graph& graph, const LmsLevels& levels);
/// Writes "distance_histogram.tsv" (a line a distance, below "#distance<TAB>frequency") and the same as SVG into
/// `directory`, which is made if it is missing; returns the path of the first.
/// Throws: DataError for what cannot be written.
std::string write_distance_histogram(const std::string& directory, const std::map<int, int>& distances);
/// Draws host memory above device memory over the steps of a simulation. The file is named after the parameters, or
/// "nolms_simulator_mem_traces.svg". Throws: DataError.
void write_memory_plot(const std::string& directory, const LmsParameters& parameters, bool without_swaps,
                       const LmsTrace& trace, std::size_t budget_bytes);

}  // namespace sectionflow

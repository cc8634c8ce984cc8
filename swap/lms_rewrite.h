#pragma once

#include "swap/lms_plan.h"

namespace sectionflow {

class LmsLog;

/// What was put into a graph.
struct LmsEdit {
  int num_swap_outs = 0, num_swap_ins = 0, num_trigger_edges = 0;
  int num_prefetched = 0;  ///< swap-ins that have a control operation
  std::size_t swap_out_bytes = 0, swap_in_bytes = 0;
};

/// Puts swap nodes behind the tensors and before their readers, and says when each begins. `graph` and `levels` are of
/// `edited` as it is before.
LmsEdit insert_lms_swaps(Graph& edited, const LmsGraph& graph, const LmsLevels& levels,
                         const std::vector<SwapTensor>& tensors, const LmsParameters& parameters, LmsLog& log);

/// Whether Lms has edited the graph before.
bool is_lms_edited(const Graph& graph);

}  // namespace sectionflow

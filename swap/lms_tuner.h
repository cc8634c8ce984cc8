#pragma once

#include "swap/lms_simulator.h"

namespace sectionflow {

/// What a search for parameters has found.
struct LmsTuning {
  bool not_necessary = false;  ///< all fits without a swap
  bool fits = true;
  int swapout_threshold = -1, swapin_ahead = -1, swapin_groupby = -1, sync_mode = 0;  ///< -1: without meaning
  LmsSimulation simulation{};                                                         ///< of these parameters
};

/// Whether parameters are to be searched for.
bool wants_tuning(const LmsOptions& options);
/// Finds the parameters that `options` leaves open: the lowest sync mode that fits, then the largest threshold, then
/// the largest ahead, then the largest groupby. Throws: ArgumentError (SF-E113) where no threshold fits; DataError for
/// plots that cannot be written.
LmsTuning tune(const LmsOptions& options, const LmsGraph& graph, const LmsLevels& levels, LmsSimulator& simulator,
               LmsLog& log);
/// The least bytes under which any threshold fits the simulation.
std::size_t least_budget(LmsSimulator& simulator);

}  // namespace sectionflow

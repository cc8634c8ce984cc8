#pragma once

#include <vector>

#include "graph/graph.h"
#include "runtime/feeds.h"
#include "runtime/session.h"
#include "train/towers.h"

namespace sectionflow {

/// What a call does on a tower: a run of the whole graph; where it trains, a cycle over its sections, if it has some.
struct TowerStep {
  bool trains = false;
  std::vector<Value> fetches{};
  Feeds feeds{};
};

/// All operations of a graph that train it as a whole.
std::vector<Operation> training_operations_of(const Graph& graph);

/// The program of a step. Throws: as Session::plan.
ProgramReport plan_step(const Tower& tower, const TowerStep& step, Where where);
/// Refuses what a tower alone would refuse amid a step of all: sessions that cannot, feeds by dtype, shape and number,
/// programs and budgets. Throws: as Session::run before anything runs.
void check_step(const Tower& tower, const TowerStep& step, Where where);
/// Throws: as Session::run and GraphSectionManager::run_full_cycle.
std::vector<HostTensor> execute_step(const Tower& tower, const TowerStep& step, Where where);

}  // namespace sectionflow

#pragma once

#include <utility>
#include <vector>

#include "autodiff/optimizers.h"
#include "runtime/session.h"
#include "sections/graph_section_manager.h"

namespace sectionflow::testing_support {

/// The losses of three steps, whole or by sections, and all variables behind them. `feeds_of(step)` gives each step's
/// feeds.
template <class FeedsOf>
std::vector<HostTensor> trained_bytes(Graph& graph, GraphSectionManager& manager, Value loss, bool by_sections,
                                      const FeedsOf& feeds_of) {
  manager.add_training_ops(Adam{.learning_rate = 1e-2F}, loss);
  manager.prepare_training();
  Session session(graph, {.threads = 2, .seed = 3, .check_schedules = true});
  session.initialize();
  std::vector<HostTensor> results;
  for (int step = 0; step < 3; ++step) {
    const sectionflow::Feeds feeds = feeds_of(step);
    if (by_sections) {
      results.push_back(std::move(manager.run_full_cycle(session, {loss}, feeds)[0]));
    } else {
      results.push_back(std::move(session.run({loss}, feeds, {.targets = manager.training_operations()})[0]));
    }
  }
  for (const Value& variable : graph.values(kVariables)) results.push_back(session.read(variable));
  return results;
}

}  // namespace sectionflow::testing_support

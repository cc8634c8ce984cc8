#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/export.h"
#include "data/batch_loader.h"
#include "fit/fit_budget.h"
#include "runtime/session.h"
#include "sections/graph_section_manager.h"
#include "swap/profile.h"

namespace SF_API sectionflow {

/// A model that is ready to train: its loss, and how a batch is fed to it.
struct TrainableModel {
  Value loss;
  std::function<Feeds(const Batch&)> feeds;  ///< the feeds point into the batch
  Value logits{};                            ///< what classes are told by, [..., classes]; may be absent
  std::int64_t classes = 0;                  ///< of labels, where there are no logits of all of them
};

/// Builds a model in its sections, adds the training operations and prepares the manager.
using ModelBuilder = std::function<TrainableModel(Graph&, GraphSectionManager&)>;

/// What a strategy may know when it edits a graph.
struct StrategySetting {
  std::int64_t batch = 0;         ///< examples in a batch
  std::size_t device_memory = 0;  ///< the budget, variables included
  std::size_t host_memory = 0;
};

/// One way of training.
struct Strategy {
  std::string name;          ///< "whole", "sections:4"
  bool whole_graph = false;  ///< Session::run with all updates, instead of run_full_cycle
  ModelBuilder build{};
  /// Has the borders of sections placed, in a model that is built without; batch and session are the comparison's.
  std::optional<PlaceCutsOptions> cuts{};
  std::optional<SectionOptions> sections{};  ///< of all sections; absent: as the model was built
  /// How fast the machine is, for planners that ask; absent: as the nominal one.
  std::optional<Profile> profile{};
  /// What fit_budget is told, where that is how the strategy plans; edit_session calls it.
  std::optional<FitBudgetOptions> fit{};
  /// Rewrites the complete graph, if that is how the strategy works.
  std::function<void(Graph&, const StrategySetting&)> edit_graph{};
  /// Tells the session how to plan, if that is how the strategy works.
  std::function<void(Session&)> edit_session{};
};

}  // namespace sectionflow

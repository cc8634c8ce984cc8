#include "train/session_manifest.h"

#include <glog/logging.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "runtime/engine.h"

namespace sectionflow {
namespace {

/// What applies gradients reads a variable, its gradient and a rate at least; other updates count steps.
std::vector<std::string> optimizers_of(const Graph& graph) {
  std::set<std::string> names;
  for (Operation operation : graph.operations(kTrainingOperations)) {
    const Node& node = operation.node();
    if (node.op().inputs.least > 2) names.insert(node.op().name);
  }
  return {names.begin(), names.end()};
}

/// The largest go first.
void limit(KeptTexts& kept) {
  std::size_t bytes = 0;
  for (const auto& [name, text] : kept) bytes += text.size();
  while (bytes > kMostKeptBytes) {
    auto largest = kept.begin();
    for (auto each = kept.begin(); each != kept.end(); ++each) {
      if (each->second.size() > largest->second.size()) largest = each;
    }
    LOG(WARNING) << "Checkpoints::save: the session's '" << largest->first << "' is not kept: it has "
                 << bytes_text(largest->second.size()) << ", and what is kept may have " << bytes_text(kMostKeptBytes);
    bytes -= largest->second.size();
    kept.erase(largest);
  }
}

/// What a reader would refuse makes no checkpoint that nobody can read.
std::optional<Profile> readable_profile(const std::string& text) {
  try {
    return Profile::from_json(text, "Checkpoints::save: the profile that the session plans by is not kept: ");
  } catch (const DataError& error) {
    LOG(WARNING) << error.message();
    return std::nullopt;
  }
}

}  // namespace

std::string noted_device(const Session& session) {
  const std::string name = session.device_name(), arithmetic = engine(session).device().arithmetic();
  return arithmetic.empty() ? name : name + ", " + arithmetic;
}

CheckpointManifest manifest_of(const Session& session, const SaveOptions& options) {
  const Statistics& figures = session.statistics();
  const TierBudgets& budgets = session.budgets();
  KeptTexts kept = engine(session).kept_texts();
  const auto own = kept.extract(kKeptProfile);
  std::optional<Profile> profile = options.profile || own.empty() ? options.profile : readable_profile(own.mapped());
  limit(kept);
  return {.step = options.step,
          .completed_cycles = session.completed_cycles(),
          .seed = session.options().seed,
          .data_position = options.data_position,
          .metrics = options.metrics,
          .optimizers = optimizers_of(session.graph()),
          .strategy = options.strategy,
          .device = noted_device(session),
          .device_memory = {budgets.device, figures.planned_peak_bytes},
          .host_memory = {budgets.host, figures.planned_host_peak_bytes},
          .disk = {budgets.disk, figures.planned_disk_peak_bytes},
          .profile = std::move(profile),
          .algorithms = session.algorithm_choices(),
          .kept = std::move(kept)};
}

}  // namespace sectionflow

#include "train/checkpoint_choice.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"

namespace sectionflow {
namespace {

using Listed = std::vector<std::pair<std::uint64_t, CheckpointInfo>>;

/// With their sequences. False where one has gone since their names were read: others may have come.
bool list_once(const CheckpointFolder& folder, Listed& found) {
  bool is_whole = true;
  found.clear();
  for (std::int64_t step : folder.steps()) {
    const std::filesystem::path path = folder.path_of(step);
    try {
      const std::optional<CheckpointManifest> manifest = folder.read_while_there(step, read_checkpoint_manifest);
      is_whole = is_whole && manifest;
      if (manifest) found.emplace_back(manifest->sequence, info_of(*manifest, path));
    } catch (const DataError& error) {
      found.emplace_back(0, CheckpointInfo{.step = step, .path = path.string(), .problem = error.message()});
    }
  }
  return is_whole;
}

}  // namespace

CheckpointInfo info_of(const CheckpointManifest& manifest, const std::filesystem::path& path) {
  std::vector<std::string> kept;
  for (const auto& [name, text] : manifest.kept) kept.push_back(name);
  return {.step = manifest.step,
          .path = path.string(),
          .data_position = manifest.data_position,
          .metrics = manifest.metrics,
          .completed_cycles = manifest.completed_cycles,
          .seed = manifest.seed,
          .optimizers = manifest.optimizers,
          .strategy = manifest.strategy,
          .device = manifest.device,
          .num_bytes = manifest.file_bytes,
          .profile = manifest.profile,
          .kept = std::move(kept)};
}

std::vector<CheckpointInfo> list_checkpoints(const CheckpointFolder& folder) {
  Listed found;
  for (int look = 1; !list_once(folder, found) && look < kMostLooksAtCheckpoints;) ++look;
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<CheckpointInfo> infos;
  for (auto& [sequence, info] : found) infos.push_back(std::move(info));
  return infos;
}

CheckpointChoice choose_checkpoints(const CheckpointFolder& folder) {
  CheckpointChoice choice;
  std::string problem;
  std::optional<std::int64_t> latest;
  std::vector<CheckpointInfo> infos;
  const auto is_listed = [&] {
    return std::any_of(infos.begin(), infos.end(), [&](const CheckpointInfo& each) { return each.step == latest; });
  };
  // What `latest` named before may have gone when the others are listed, and with it what it names now have come.
  for (int look = 1; look <= kMostLooksAtCheckpoints; ++look) {
    problem.clear();
    latest = folder.latest(problem);
    infos = list_checkpoints(folder);
    std::string ignored;
    if (!latest || is_listed() || folder.latest(ignored) == latest) break;
  }
  for (auto info = infos.rbegin(); info != infos.rend(); ++info) {
    if (info->problem.empty()) choice.steps.push_back(info->step);
  }
  if (!problem.empty()) choice.problems.push_back(problem);
  const auto named = std::find(choice.steps.begin(), choice.steps.end(), latest.value_or(-1));
  const auto info = std::find_if(infos.begin(), infos.end(), [&](const auto& each) { return each.step == latest; });
  if (latest && info == infos.end()) {
    choice.problems.push_back(text_of("'", folder.path_of(*latest).string(), "', the latest, is not there"));
  } else if (latest && named == choice.steps.end()) {
    choice.problems.push_back(std::exchange(info->problem, {}));
  } else if (latest) {
    std::rotate(choice.steps.begin(), named, named + 1);
  }
  for (auto each = infos.rbegin(); each != infos.rend(); ++each) {
    if (!each->problem.empty()) choice.unreadable.push_back(each->problem);
  }
  // Without a latest the newest may be among them.
  if (!latest && choice.problems.empty()) choice.problems.swap(choice.unreadable);
  return choice;
}

}  // namespace sectionflow

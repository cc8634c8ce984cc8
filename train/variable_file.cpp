#include "train/variable_file.h"

#include <glog/logging.h>

#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "runtime/engine.h"
#include "train/match_variables.h"
#include "train/update_settings.h"
#include "train/variable_snapshot.h"

namespace sectionflow {
namespace {

/// Keys of the metadata.
constexpr const char* kProfile = "profile";
constexpr const char* kAlgorithms = "algorithms";
constexpr const char* kCycles = "completed_cycles";
constexpr const char* kSlots = "slots";
constexpr const char* kUpdates = "updates";

AlgorithmChoices choices_of(const Metadata& metadata, const std::string& path) {
  const auto choices = metadata.find(kAlgorithms);
  if (choices == metadata.end()) return {};
  return AlgorithmChoices::from_json(choices->second, text_of("the algorithms in '", path, "': "));
}

/// The cycles that the session had completed; nothing where the file does not tell.
std::optional<std::uint64_t> cycles_of(const Metadata& metadata, const std::string& path) {
  const auto cycles = metadata.find(kCycles);
  if (cycles == metadata.end()) return std::nullopt;
  const std::string& text = cycles->second;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  SF_CHECK(error == std::errc() && end == text.data() + text.size(), DataError, "the completed_cycles in '", path,
           "' are no number of cycles");
  return number;
}

std::optional<Profile> profile_of(const Metadata& metadata, const std::string& path) {
  const auto profile = metadata.find(kProfile);
  if (profile == metadata.end()) return std::nullopt;
  return Profile::from_json(profile->second, text_of("the profile in '", path, "': "));
}

/// Names that stand for nothing in the file do no harm.
std::set<std::string> slots_of(const Metadata& metadata, const std::string& path) {
  const auto slots = metadata.find(kSlots);
  if (slots == metadata.end()) return {};
  const auto list = nlohmann::json::parse(slots->second, nullptr, false);
  std::set<std::string> names;
  bool is_list = list.is_array();
  for (std::size_t i = 0; is_list && i < list.size(); ++i) {
    is_list = list[i].is_string();
    if (is_list) names.insert(list[i].get<std::string>());
  }
  SF_CHECK(is_list, DataError, "the slots in '", path, "' are no list of names");
  return names;
}

std::vector<std::string> updates_of(const Metadata& metadata) {
  const auto updates = metadata.find(kUpdates);
  return updates == metadata.end() ? std::vector<std::string>() : read_update_settings(updates->second);
}

/// The other settings may be meant, as the rate may.
void warn_of_updates(const Session& session, const VariableFile& file) {
  const std::string differ = differences_of_settings(file.updates, update_settings(session.graph()));
  LOG_IF(WARNING, !differ.empty()) << "'" << file.path
                                   << "' was saved by a training with other updates, which goes on otherwise than it "
                                      "would have: "
                                   << differ;
}

VariableFile variable_file(SafetensorsFile file, const std::string& path) {
  return {.path = path,
          .tensors = std::move(file.tensors),
          .slots = slots_of(file.metadata, path),
          .updates = updates_of(file.metadata),
          .profile = profile_of(file.metadata, path),
          .choices = choices_of(file.metadata, path),
          .cycles = cycles_of(file.metadata, path)};
}

}  // namespace

Metadata metadata_of(const CheckpointNotes& notes, const Session& session) {
  Metadata metadata = {{"format", "sectionflow"}, {kCycles, std::to_string(session.completed_cycles())}};
  if (notes.profile) metadata[kProfile] = notes.profile->json();
  const AlgorithmChoices& choices = session.algorithm_choices();
  if (!choices.algorithms.empty()) metadata[kAlgorithms] = choices.json();
  const std::vector<std::string> updates = update_settings(session.graph());
  if (!updates.empty()) metadata[kUpdates] = update_settings_text(updates);
  const std::vector<std::string> slots = slot_names(session.graph());
  if (slots.empty()) return metadata;
  try {
    metadata[kSlots] = nlohmann::json(slots).dump();
  } catch (const nlohmann::json::type_error&) {
    throw ArgumentError(
        error_text_of("save_variables: a variable's name is not UTF-8", hint("name layers and scopes in UTF-8")));
  }
  return metadata;
}

VariableFile variable_file_of(CheckpointContent content, const std::string& path) {
  const CheckpointManifest& manifest = content.manifest;
  VariableFile file = variable_file(std::move(content.file), path);
  file.profile = manifest.profile;
  file.choices = manifest.algorithms;
  file.cycles = manifest.completed_cycles;
  file.kept = manifest.kept;
  return file;
}

VariableFile read_variable_file(const std::string& path) {
  try {
    std::error_code ignored;
    const std::filesystem::path folder = path;
    if (std::filesystem::is_directory(folder, ignored) && !std::filesystem::exists(folder / kManifestName, ignored)) {
      const CheckpointFolder checkpoints(folder);
      const std::vector<std::int64_t> steps = checkpoints.steps();
      SF_CHECK(steps.empty(), DataError, "'", path, "' is a folder of ", steps.size(), " checkpoints, and none itself",
               hint("take one of them, such as \"", checkpoints.path_of(steps.back()).string(), "\""));
    }
    if (std::filesystem::is_directory(path, ignored)) return variable_file_of(read_checkpoint(path), path);
    return variable_file(read_safetensors(path), path);
  } catch (Error& error) {
    error.add_fact("hint", "take another copy of the file, or another file that save_variables has written");
    throw;
  }
}

LoadReport load_file(Session& session, const VariableFile& file, const LoadOptions& options, Where where) {
  // The end of their scope would exchange what is loaded.
  SF_CHECK_CODE(!engine(session).is_training_refused(), ArgumentError, ErrorCode::averages_in_place,
                "load_variables: averages stand in the place of the weights: AveragedWeights still lives",
                hint("end its scope before anything is loaded or restored"));
  LoadReport report;
  const std::vector<VariableMatch> matches = match_variables(session.graph(), file, options, report);
  engine(session).check_has_values("load_variables");
  const bool goes_on = options.only.empty() && !options.weights_only;
  if (goes_on && !file.choices.algorithms.empty()) session.use_algorithms(file.choices);
  for (const auto& [variable, tensor] : matches) session.write(variable, *tensor, where);
  if (goes_on && file.cycles) {
    session.set_completed_cycles(*file.cycles, where);
    report.completed_cycles = file.cycles;
  } else if (goes_on) {
    LOG(INFO) << "'" << file.path << "' does not tell how many cycles had been completed: the session's count stays at "
              << session.completed_cycles();
  }
  report.profile = file.profile;
  if (goes_on && file.kept) {
    KeptTexts kept = *file.kept;
    if (file.profile) kept[kKeptProfile] = file.profile->json();
    engine(session).give_back(std::move(kept), file.path);
  }
  if (goes_on) warn_of_updates(session, file);
  LOG_IF(WARNING, report.loaded.empty()) << "load_variables: '" << file.path
                                         << "' has set no variable: " << report.text();
  return report;
}

}  // namespace sectionflow

#include "train/checkpoint.h"

#include <glog/logging.h>

#include <charconv>
#include <cstdint>
#include <map>
#include <system_error>

#include "base/error.h"
#include "data/safetensors.h"
#include "runtime/engine.h"

namespace sectionflow {
namespace {

/// Differences that an error text lists.
constexpr std::size_t kMostListed = 5;

/// What keeps the tensors of a file from being the variables of a graph, a line each.
std::vector<std::string> differences(const Graph& graph, const std::map<std::string, const HostTensor*>& tensors) {
  std::vector<std::string> found;
  std::size_t num_known = 0;
  for (Value variable : graph.values(kVariables)) {
    const auto tensor = tensors.find(variable.name());
    if (tensor == tensors.end()) {
      found.push_back(text_of("'", variable.name(), "' is missing; wanted ", variable.type().text()));
      continue;
    }
    ++num_known;
    if (tensor->second->type() == variable.type()) continue;
    found.push_back(
        text_of("'", variable.name(), "' is ", tensor->second->type().text(), "; wanted ", variable.type().text()));
  }
  if (num_known == tensors.size()) return found;
  std::map<std::string, const HostTensor*> strange = tensors;
  for (Value variable : graph.values(kVariables)) strange.erase(variable.name());
  for (const auto& [name, tensor] : strange) found.push_back(text_of("'", name, "' is no variable of the graph"));
  return found;
}

/// Keys of the metadata.
constexpr const char* kProfile = "profile";
constexpr const char* kAlgorithms = "algorithms";
constexpr const char* kCycles = "completed_cycles";

Metadata metadata_of(const CheckpointNotes& notes, const AlgorithmChoices& choices, std::uint64_t cycles) {
  Metadata metadata = {{"format", "sectionflow"}, {kCycles, std::to_string(cycles)}};
  if (notes.profile) metadata[kProfile] = notes.profile->json();
  if (!choices.algorithms.empty()) metadata[kAlgorithms] = choices.json();
  return metadata;
}

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

CheckpointNotes notes_of(const Metadata& metadata, const std::string& path) {
  CheckpointNotes notes;
  const auto profile = metadata.find(kProfile);
  if (profile != metadata.end())
    notes.profile = Profile::from_json(profile->second, text_of("the profile in '", path, "': "));
  return notes;
}

void save(Session& session, const std::string& path, const CheckpointNotes& notes, Where where) {
  engine(session).check_has_values("save_variables");
  std::vector<NamedTensor> tensors;
  for (Value variable : session.graph().values(kVariables)) {
    tensors.push_back({variable.name(), session.read(variable, where)});
  }
  write_safetensors(path, views_of(tensors),
                    metadata_of(notes, session.algorithm_choices(), session.completed_cycles()));
}

/// What a file holds.
struct Checkpoint {
  std::vector<NamedTensor> tensors;
  CheckpointNotes notes;
  AlgorithmChoices choices;
  std::optional<std::uint64_t> cycles;
};

Checkpoint read_checkpoint(const std::string& path) {
  try {
    SafetensorsFile file = read_safetensors(path);
    return {.tensors = std::move(file.tensors),
            .notes = notes_of(file.metadata, path),
            .choices = choices_of(file.metadata, path),
            .cycles = cycles_of(file.metadata, path)};
  } catch (Error& error) {
    error.add_fact("hint", "take another copy of the file, or another file that save_variables has written");
    throw;
  }
}

CheckpointNotes load(Session& session, const std::string& path, Where where) {
  const auto [file_tensors, notes, choices, cycles] = read_checkpoint(path);
  std::map<std::string, const HostTensor*> tensors;
  for (const NamedTensor& entry : file_tensors) tensors[entry.name] = &entry.tensor;
  const std::vector<std::string> wrong = differences(session.graph(), tensors);
  if (!wrong.empty()) {
    std::string listed;
    for (std::size_t i = 0; i < wrong.size() && i < kMostListed; ++i) listed += text_of("\n    ", wrong[i]);
    throw DataError(
        error_text_of("'", path, "' does not hold the variables of this graph: ", wrong.size(),
                      wrong.size() == 1 ? " difference" : " differences", listed,
                      hint("load it into the graph that it was saved from, built with the same optimizer")));
  }
  engine(session).check_has_values("load_variables");
  if (!choices.algorithms.empty()) session.use_algorithms(choices);
  for (Value variable : session.graph().values(kVariables))
    session.write(variable, *tensors.at(variable.name()), where);
  if (cycles) {
    session.set_completed_cycles(*cycles, where);
  } else {
    LOG(INFO) << "'" << path << "' does not tell how many cycles had been completed: the session's count stays at "
              << session.completed_cycles();
  }
  return notes;
}

}  // namespace

void save_variables(Session& session, const std::string& path, const CheckpointNotes& notes, Where where) {
  call_at(where, [&] { save(session, path, notes, where); });
}

CheckpointNotes load_variables(Session& session, const std::string& path, Where where) {
  return call_at(where, [&] { return load(session, path, where); });
}

}  // namespace sectionflow

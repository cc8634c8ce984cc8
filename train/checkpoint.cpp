#include "train/checkpoint.h"

#include <map>

#include "base/error.h"
#include "data/safetensors.h"

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

Metadata metadata_of(const CheckpointNotes& notes, const AlgorithmChoices& choices) {
  Metadata metadata = {{"format", "sectionflow"}};
  if (notes.profile) metadata[kProfile] = notes.profile->json();
  if (!choices.algorithms.empty()) metadata[kAlgorithms] = choices.json();
  return metadata;
}

AlgorithmChoices choices_of(const Metadata& metadata, const std::string& path) {
  const auto choices = metadata.find(kAlgorithms);
  if (choices == metadata.end()) return {};
  return AlgorithmChoices::from_json(choices->second, text_of("the algorithms in '", path, "': "));
}

CheckpointNotes notes_of(const Metadata& metadata, const std::string& path) {
  CheckpointNotes notes;
  const auto profile = metadata.find(kProfile);
  if (profile != metadata.end())
    notes.profile = Profile::from_json(profile->second, text_of("the profile in '", path, "': "));
  return notes;
}

void save(Session& session, const std::string& path, const CheckpointNotes& notes, Where where) {
  std::vector<NamedTensor> tensors;
  for (Value variable : session.graph().values(kVariables)) {
    tensors.push_back({variable.name(), session.read(variable, where)});
  }
  write_safetensors(path, views_of(tensors), metadata_of(notes, session.algorithm_choices()));
}

CheckpointNotes load(Session& session, const std::string& path, Where where) {
  const SafetensorsFile file = read_safetensors(path);
  CheckpointNotes notes = notes_of(file.metadata, path);
  const AlgorithmChoices choices = choices_of(file.metadata, path);
  std::map<std::string, const HostTensor*> tensors;
  for (const NamedTensor& entry : file.tensors) tensors[entry.name] = &entry.tensor;
  const std::vector<std::string> wrong = differences(session.graph(), tensors);
  if (!wrong.empty()) {
    std::string listed;
    for (std::size_t i = 0; i < wrong.size() && i < kMostListed; ++i) listed += text_of("\n    ", wrong[i]);
    throw DataError(
        error_text_of("'", path, "' does not hold the variables of this graph: ", wrong.size(),
                      wrong.size() == 1 ? " difference" : " differences", listed,
                      hint("load it into the graph that it was saved from, built with the same optimizer")));
  }
  // Before initialize() the first read tells, and nothing has been written.
  for (Value variable : session.graph().values(kVariables)) (void)session.read(variable, where);
  if (!choices.algorithms.empty()) session.use_algorithms(choices);
  for (Value variable : session.graph().values(kVariables))
    session.write(variable, *tensors.at(variable.name()), where);
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

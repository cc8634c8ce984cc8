#include "train/checkpoint.h"

#include "data/safetensors.h"

namespace sectionflow {

void save_variables(Session& session, const std::string& path) {
  std::vector<NamedTensor> tensors;
  for (Value variable : session.graph().values(kVariables)) {
    tensors.push_back({variable.name(), session.read(variable)});
  }
  write_safetensors(path, views_of(tensors), {{"format", "sectionflow"}});
}

}  // namespace sectionflow

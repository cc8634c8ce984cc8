#include "train/checkpoint.h"

#include "data/safetensors.h"
#include "runtime/engine.h"
#include "train/variable_file.h"
#include "train/variable_snapshot.h"

namespace sectionflow {

void save_variables(Session& session, const std::string& path, const CheckpointNotes& notes, Where where) {
  call_at(where, [&] {
    engine(session).check_has_values("save_variables");
    if (gives_shards_alone(session)) return;
    std::vector<NamedTensor> tensors;
    for (Value variable : session.graph().values(kVariables))
      tensors.push_back({variable.name(), session.read(variable, where)});
    write_safetensors(path, views_of(tensors), metadata_of(notes, session));
  });
}

LoadReport load_variables(Session& session, const std::string& path, const LoadOptions& options, Where where) {
  return call_at(where, [&] { return load_file(session, read_variable_file(path), options, where); });
}

}  // namespace sectionflow

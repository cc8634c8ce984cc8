#include "train/variable_snapshot.h"

#include <sys/mman.h>

#include <utility>

#include "base/bytes.h"

namespace sectionflow {

std::vector<NamedType> variable_types(const Graph& graph) {
  std::vector<NamedType> types;
  for (Value variable : graph.values(kVariables)) types.push_back({variable.name(), variable.type()});
  return types;
}

std::vector<std::string> slot_names(const Graph& graph) {
  std::vector<std::string> names;
  for (Value variable : graph.values(kVariables)) {
    if (variable.node().phase() == Phase::training) names.push_back(variable.name());
  }
  return names;
}

std::unique_ptr<VariableSnapshot> VariableSnapshot::take(Engine& engine, std::function<void()> give_back) {
  std::unique_ptr<VariableSnapshot> snapshot(new VariableSnapshot);
  for (Value variable : engine.graph().values(kVariables)) snapshot->num_bytes_ += round_up(variable.type().bytes());
  if (snapshot->num_bytes_ == 0) return snapshot;
  snapshot->hold_ = engine.hold_host_memory(snapshot->num_bytes_, std::move(give_back));
  if (snapshot->hold_ == nullptr) return nullptr;
  // Fresh pages, which go back to the machine as a whole; large ones are zeroed and mapped much faster.
  void* block = mmap(nullptr, snapshot->num_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return nullptr;
  (void)madvise(block, snapshot->num_bytes_, MADV_HUGEPAGE);
  snapshot->block_ = static_cast<std::byte*>(block);
  std::byte* next = snapshot->block_;
  for (Value variable : engine.graph().values(kVariables)) {
    engine.read_to(next, variable, {});
    snapshot->tensors_[variable.name()] = {variable.type(), next};
    next += round_up(variable.type().bytes());
  }
  return snapshot;
}

VariableSnapshot::~VariableSnapshot() {
  if (block_ != nullptr) munmap(block_, num_bytes_);
}

}  // namespace sectionflow

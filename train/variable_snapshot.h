#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/safetensors.h"
#include "runtime/engine.h"

namespace sectionflow {

/// Names and types of a graph's variables, as files have them.
std::vector<NamedType> variable_types(const Graph& graph);
/// The names of the variables that training has added: an optimiser's slots and counters.
std::vector<std::string> slot_names(const Graph& graph);

/// Whether ranks hold variables of the session in shards.
bool has_shards(const Session& session);
/// Throws: ArgumentError (SF-E036), beginning with `call`, where they do: a folder of checkpoints is one process's.
void check_has_no_shards(const Session& session, const char* call);
/// Where ranks hold variables in shards all of them save together, and rank 0 writes. On any other: gives rank 0 what
/// it reads, all variables in the order of their collection, and returns true. False where this session writes.
bool gives_shards_alone(Session& session);

/// The values of all variables, as they were when it was made, in one block of host memory that counts in the session's
/// `host_memory`. Owns: the block. Threads: any may read.
class VariableSnapshot {
 public:
  VariableSnapshot() = default;
  ~VariableSnapshot() { drop(); }
  VariableSnapshot(const VariableSnapshot&) = delete;
  VariableSnapshot& operator=(const VariableSnapshot&) = delete;

  /// Copies the values as they are now, into the block of the last time where that still does: memory that has been
  /// touched is copied to in less than half the time. False where the bytes do not fit beside what the session's
  /// programs take; there is no block then. `give_back`: see HostHold; it calls drop().
  bool take(Engine& engine, std::function<void()> give_back);
  /// Nobody reads the values any more: the block is anybody's who needs its bytes.
  void set_idle();
  /// Gives the block back.
  void drop();

  TensorView tensor(const std::string& name) const { return tensors_.at(name); }

 private:
  bool make_block(Engine& engine, std::size_t num_bytes, std::function<void()> give_back);

  std::shared_ptr<HostHold> hold_;
  std::byte* block_ = nullptr;
  std::size_t num_bytes_ = 0;
  std::map<std::string, TensorView> tensors_;
};

}  // namespace sectionflow

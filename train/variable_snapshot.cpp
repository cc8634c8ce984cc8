#include "train/variable_snapshot.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "comm/communicator.h"
#include "graph/nodes/shards.h"

namespace sectionflow {

std::vector<NamedType> variable_types(const Graph& graph) {
  std::vector<NamedType> types;
  for (Value variable : graph.values(kVariables)) types.push_back({variable.name(), whole_type(variable)});
  return types;
}

std::vector<std::string> slot_names(const Graph& graph) {
  std::vector<std::string> names;
  for (Value variable : graph.values(kVariables)) {
    if (variable.node().phase() == Phase::training) names.push_back(variable.name());
  }
  return names;
}

bool has_shards(const Session& session) {
  const std::vector<Value> variables = session.graph().values(kVariables);
  return std::any_of(variables.begin(), variables.end(),
                     [](Value variable) { return shard_of(variable).valid() || ranks_of_shard(variable) > 0; });
}

void check_has_no_shards(const Session& session, const char* call) {
  SF_CHECK_CODE(!has_shards(session), ArgumentError, ErrorCode::ranks, call,
                ": ranks hold variables of the session in shards, and a folder of checkpoints is one process's",
                hint("call save_variables(session, path) on all ranks, and load_variables to go on"));
}

bool gives_shards_alone(Session& session) {
  const auto& communicator = engine(session).options().communicator;
  if (!has_shards(session) || communicator == nullptr || communicator->rank() == 0) return false;
  for (Value variable : session.graph().values(kVariables)) {
    (void)session.read(variable);
  }
  return true;
}

bool VariableSnapshot::take(Engine& engine, std::function<void()> give_back) {
  std::size_t num_bytes = 0;
  for (Value variable : engine.graph().values(kVariables)) num_bytes += round_up(whole_type(variable).bytes());
  tensors_.clear();
  const bool has_block = hold_ != nullptr && num_bytes_ == num_bytes && engine.has_hold(*hold_);
  if (!has_block && !make_block(engine, num_bytes, std::move(give_back))) return false;
  if (hold_ != nullptr) hold_->is_idle = false;
  std::byte* next = block_;
  try {
    for (Value variable : engine.graph().values(kVariables)) {
      engine.read_to(next, variable, {});
      tensors_[variable.name()] = {whole_type(variable), next};
      next += round_up(whole_type(variable).bytes());
    }
  } catch (...) {
    set_idle();
    throw;
  }
  return true;
}

bool VariableSnapshot::make_block(Engine& engine, std::size_t num_bytes, std::function<void()> give_back) {
  drop();
  if (num_bytes == 0) return true;
  hold_ = engine.hold_host_memory(num_bytes, std::move(give_back));
  if (hold_ == nullptr) return false;
  // Fresh pages, which go back to the machine as a whole; large ones are zeroed and mapped much faster.
  void* block = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) {
    hold_.reset();
    return false;
  }
  block_ = static_cast<std::byte*>(block);
  num_bytes_ = num_bytes;
  (void)madvise(block, num_bytes, MADV_HUGEPAGE);
  // All at once: a page that has just been zeroed lies in the caches, past which it is to be written.
  (void)madvise(block, num_bytes, MADV_POPULATE_WRITE);
  return true;
}

void VariableSnapshot::set_idle() {
  if (hold_ != nullptr) hold_->is_idle = true;
}

void VariableSnapshot::drop() {
  if (block_ != nullptr) munmap(block_, num_bytes_);
  block_ = nullptr;
  num_bytes_ = 0;
  hold_.reset();
}

}  // namespace sectionflow

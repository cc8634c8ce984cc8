// The variables of a session: their initial values, reading and writing them.

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "comm/communicator.h"
#include "device/mapped_memory.h"
#include "graph/nodes/shards.h"
#include "graph/ops/basic.h"
#include "runtime/engine.h"
#include "runtime/lent_memory.h"
#include "runtime/next_feeds.h"
#include "runtime/swap_engine.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sectionflow {

namespace {

/// Throws: ArgumentError unless the session's ranks are those that hold the variable's shards.
void check_ranks_of_shard(Value held, const Communicator* communicator) {
  const std::int64_t ranks = ranks_of_shard(held);
  SF_CHECK_CODE(ranks == 0 || (communicator != nullptr && communicator->size() == ranks), ArgumentError,
                ErrorCode::ranks, "'", held.name(), "' is a shard of ", ranks, ranks == 1 ? " rank" : " ranks",
                ", and the session has ",
                communicator != nullptr ? text_of("a communicator of ", communicator->size()) : "no communicator",
                hint("give the session the communicator of these ranks (SessionOptions::communicator)"));
}

ShardLayout layout_of(Value shard) {
  return {whole_type(shard).shape.num_elements(), holders_of_shard(shard)};
}
/// Of f32 elements.
std::size_t bytes_of(std::int64_t elements) {
  return static_cast<std::size_t>(elements) * sizeof(float);
}

/// Of all of a variable what a rank has in its shard; 0 behind it.
std::vector<std::byte> own_shard(const HostTensor& whole, Value shard, int rank) {
  const ShardLayout layout = layout_of(shard);
  std::vector<std::byte> mine(bytes_of(layout.size_on(rank)));
  const std::int64_t count = layout.elements_of(rank);
  if (count > 0) std::copy_n(whole.bytes() + bytes_of(layout.begin_of(rank)), bytes_of(count), mine.begin());
  return mine;
}

/// all = what the ranks have of it, of which `mine` is this rank's shard.
void join_shards(std::span<const std::byte> mine, std::span<std::byte> all, Value shard, Communicator& communicator) {
  const ShardHolders holders = holders_of_shard(shard);
  if (!holders.has_server) return communicator.all_gather_shards(mine, all, mine.size());
  std::copy(mine.begin(), mine.end(), all.begin());
  communicator.broadcast(all, static_cast<int>(holders.server));
}

/// Communicator::set_work of what gathers a variable to be read.
std::uint64_t work_of_read(const std::string& name) {
  const std::string text = "read " + name;
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace

std::size_t Engine::bytes_here(Value held) const {
  const bool is_elsewhere = options_.communicator != nullptr && is_held_elsewhere(held, options_.communicator->rank());
  return is_elsewhere ? 0 : held.type().bytes();
}

/// What the session has of it: itself, or the rank's shard of it. Throws: ArgumentError where it has no value.
Value Engine::check_variable(Value variable, const char* call) {
  check_not_pending(call);
  meet_graph();
  SF_CHECK(variable.valid() && &variable.graph() == graph_ && is_variable(variable), ArgumentError, call, " of '",
           variable.valid() ? variable.name() : "", "': wanted a variable of this session's graph");
  SF_CHECK_CODE(!torn_, ArgumentError, ErrorCode::torn_session, call, " of '", variable.name(),
                "': a failure after the first update left this session's variables half updated",
                hint("call session.initialize()"));
  const Value held = place_of(variable);
  SF_CHECK_CODE(initialized_ && layout().contains(held.node().id()), ArgumentError, ErrorCode::not_initialized, call,
                " of '", variable.name(), "': it has no value yet", hint("call session.initialize() first"));
  check_ranks_of_shard(held, options_.communicator.get());
  return held;
}

/// In host memory or the arena; nullptr on disk.
std::byte* Engine::bytes_of_place(Value held) {
  const auto id = static_cast<std::size_t>(held.node().id());
  switch (layout().home_of(held.node().id())) {
    case Tier::device:
      return arena().data() + layout().offsets[id];
    case Tier::host:
      return swaps_->host_base() + layout().host_offsets[id];
    case Tier::disk:
      break;
  }
  return nullptr;
}

void Engine::read_place(Value held, std::byte* to) {
  const NodeId id = held.node().id();
  const std::size_t num_bytes = bytes_here(held);
  const Tier home = layout().home_of(id);
  if (home == Tier::disk) {
    swaps_->read_home(id, layout().disk_offsets[static_cast<std::size_t>(id)], {to, num_bytes});
  } else if (device_->kind() == DeviceKind::cpu || home == Tier::host) {
    const auto entered = device_->enter();
    copy_past_caches(to, bytes_of_place(held), num_bytes);
  } else {
    device_->copy_to_host(to, bytes_of_place(held), num_bytes);
  }
}

void Engine::write_place(Value held, const std::byte* from) {
  const NodeId id = held.node().id();
  const std::size_t num_bytes = bytes_here(held);
  switch (layout().home_of(id)) {
    case Tier::device:
      return device_->copy_from_host(bytes_of_place(held), from, num_bytes);
    case Tier::host:
      std::copy_n(from, num_bytes, bytes_of_place(held));
      return;
    case Tier::disk:
      return swaps_->write_home(id, layout().disk_offsets[static_cast<std::size_t>(id)], {from, num_bytes});
  }
}

void Engine::set_initial_values() {
  lay_out_variables();
  std::vector<std::int64_t> no_executions(static_cast<std::size_t>(graph_->num_nodes()), 0);
  RunOptions assignments;
  std::vector<Value> stored;
  for (NodeId id = 0; id < graph_->num_nodes(); ++id) {
    Node& node = graph_->node(id);
    // One that ranks hold in shards has its shard instead.
    if (!layout().contains(id)) continue;
    if (constant_content(node.output()) != nullptr) {
      stored.push_back(node.output());
    } else {
      assignments.targets.push_back(initializer_of(node.output()));
    }
  }
  initialized_ = true;
  for (const Operation& assignment : assignments.targets) {
    const Value variable = assignment.node().inputs()[0];
    if (ranks_of_shard(variable) > 0) (void)check_variable(variable, "initialize()");  // which asks for its ranks
  }
  const RunRequest request{.fetches = {}, .targets = assignments.targets, .gives_initial_values = true};
  const auto write = [&](PlanningTools& tools) {
    try {
      return build_schedule(tools.graph(), request);
    } catch (Error& error) {
      error.add_fact("needed", "for the initial values of variables, each of which is there before others read it");
      throw;
    }
  };
  Executable& initial = program(
      "initial values", {}, [&] { return request; }, write);
  initial.report.initializes = true;
  execute(initial, {});
  try {
    for (const Value& constant : stored) {
      write_place(check_variable(constant, "initialize()"), constant_content(constant)->bytes());
    }
  } catch (...) {
    torn_ = true;  // the others have their initial values
    throw;
  }
  executions_.swap(no_executions);
}

void Engine::check_has_values(const char* call) {
  const auto inside = enter();
  check_not_pending(call);
  meet_graph();
  SF_CHECK_CODE(initialized_, ArgumentError, ErrorCode::not_initialized, call,
                ": the session's variables have no values yet",
                hint("call session.initialize() first: it makes room for them, and a value for each"));
  for (Value variable : graph_->values(kVariables)) {
    SF_CHECK_CODE(layout().contains(place_of(variable).node().id()), ArgumentError, ErrorCode::not_initialized, call,
                  ": variable '", variable.name(), "' was made after session.initialize()",
                  Fact{"variable", variable.node().place()},
                  hint("make all variables, optimisers included, before it"));
  }
}

void Engine::set_completed_cycles(std::uint64_t cycles, Where where) {
  user_call(where, [&] {
    check_not_pending("set_completed_cycles");
    SF_CHECK_CODE(initialized_, ArgumentError, ErrorCode::not_initialized,
                  "set_completed_cycles: the session's variables have no values yet",
                  hint("call session.initialize() first: it sets the count to 0"));
    cycle_ = cycles;
    last_write_ = ++num_writes_;  // what is saved of the session has another count
  });
}

HostTensor Engine::read(Value variable, Where where) {
  HostTensor tensor;
  user_call(where, [&] {
    // First: what is no variable of this graph may have no type.
    (void)check_variable(variable, "read");
    tensor = HostTensor(whole_type(variable));
    read_to(tensor.bytes(), variable, where);
  });
  return tensor;
}

void Engine::read_to(std::byte* bytes, Value variable, Where where) {
  user_call(where, [&] {
    const Value held = check_variable(variable, "read");
    const bool is_shard = ranks_of_shard(held) > 0;
    SF_CHECK(whole_type(variable) == whole_type(held), InternalError, "read of '", variable.name(), "': '", held.name(),
             "' is a shard of another type");
    std::vector<std::byte> mine(is_shard ? bytes_here(held) : 0);
    read_place(held, is_shard ? mine.data() : bytes);
    // Every rank gives its own, and gets all.
    if (!is_shard) return;
    Communicator& communicator = *options_.communicator;
    // Ranks that read others in this place are told so, before a byte of these moves.
    communicator.set_work(work_of_read(variable.name()));
    join_shards(mine, {bytes, whole_type(held).bytes()}, held, communicator);
    communicator.set_work(0);
  });
}

std::shared_ptr<HostHold> Engine::hold_host_memory(std::size_t num_bytes, std::function<void()> give_back) {
  const auto inside = enter();
  auto hold = holds_->hold_free(num_bytes, give_back);
  if (hold != nullptr) return hold;
  if (lent_ != nullptr) lent_->drop_idle();
  return holds_->hold(num_bytes, give_back);
}

void Engine::offer_next_feeds(Feeds feeds) {
  const auto inside = enter();
  if (copies_feeds_ahead()) next_feeds_->offer(std::move(feeds));
}

void Engine::forget_next_feeds() noexcept {
  next_feeds_->forget();
}

std::shared_ptr<LentMemory> Engine::lent_memory() {
  const auto inside = enter();
  constexpr std::size_t kOnAGpu = std::size_t{1} << 30;
  const std::size_t most = options_.lent_memory.value_or(device_->queues() != nullptr ? kOnAGpu : 0);
  if (lent_ == nullptr && most > 0) lent_ = std::make_shared<LentMemory>(most, holds_, device_->queues());
  return lent_;
}

void Engine::write(Value variable, const HostTensor& tensor, Where where) {
  user_call(where, [&] {
    (void)check_variable(variable, "write");
    SF_CHECK(constant_content(variable) == nullptr, ArgumentError, "write of '", variable.name(),
             "': that is a constant, whose value the graph has; wanted a variable");
    const Value held = place_of(variable), master = master_of(variable);
    SF_CHECK(tensor.type() == whole_type(held), ShapeError, "write of '", variable.name(), "': got ",
             tensor.type().text(), ", wanted ", whole_type(held).text());
    if (master.valid()) (void)check_variable(master, "write");
    last_write_ = ++num_writes_;
    write_held(held, tensor);
    if (master.valid()) write_held(master, tensor);
  });
}

/// Sets a place of the session to what it has of a whole variable.
void Engine::write_held(Value held, const HostTensor& whole) {
  (void)check_variable(held, "write");
  if (ranks_of_shard(held) == 0) return write_place(held, whole.bytes());
  write_place(held, own_shard(whole, held, options_.communicator->rank()).data());
}

}  // namespace sectionflow

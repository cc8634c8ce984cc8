#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/export.h"
#include "schedule/concrete_graph.h"
#include "schedule/plan_memory.h"
#include "schedule/step_kind.h"

namespace SF_API sectionflow {

/// One entry of an instruction list: what to do, without bytes or addresses.
struct Instruction {
  StepKind kind = StepKind::compute;
  NodeId node = 0;      ///< to feed or compute
  Value fetched{};      ///< for fetch and hold; the value to copy out or in
  int fetch_slot = 0;   ///< for fetch: which fetch of the caller
  int pass = 0;         ///< index into InstructionList::passes
  bool replay = false;  ///< compute: the node has been executed before in this cycle, and its kept outputs are alive
  /// Copies: the number of the offload, which all its copies share; -1: a variable's copy. Of a hold, the offload whose
  /// bytes in host memory it keeps; -1: it keeps the value.
  int offload = -1;
  int part = 0;   ///< compute: which part of the node, where it runs in several
  int parts = 1;  ///< compute: how many equal parts the node runs in (OpDef::parts); 1: it runs as a whole
};

/// A value that is in memory when an instruction list begins, left there by an earlier one.
struct EntryValue {
  Value value;
  std::size_t offset = 0;            ///< in the planned region of its tier
  std::vector<Value> other_names{};  ///< as in Buffer
  Tier tier = Tier::device;
  int offload = -1;  ///< off the device: the number of its offload
};

/// What runs when; what a writer of schedules writes. A value that is written again begins a new buffer; a reader reads
/// the latest. Nothing else needs to be said about what is kept, dropped or computed again.
///
/// A value is offloaded between a `copy_out` instruction, which copies its latest buffer to the host, and a `copy_in`
/// instruction, which begins a new buffer of it, or of another value of that type, with the same bytes. `disk_write`
/// and `disk_read` instructions between the two move the offload on to the disk and back to the host. A `hold`
/// instruction behind a copy_out says when the copy is expected to be over: until then the plan gives its bytes to
/// nobody, who would have to wait. One with the number of an offload, behind its last copy_in, says the same of its
/// bytes in host memory.
///
/// A node may run in several equal parts, instruction by instruction, the first part first. A value that the parts make
/// is whole, and each part writes its own stretch of one buffer, unless only parts of its own number read it, of nodes
/// of the same strip (strips_of): then each part of it is a buffer of its own, which ends with its last reader.
///
/// Moves of a variable whose home tier is the host or the disk have no number of an offload: insert_variable_transfers
/// writes them into the list that a writer has finished. What comes from the disk, or goes there, has a buffer in host
/// memory on its way.
struct InstructionList {
  std::vector<Pass> passes;
  std::vector<Instruction> instructions;
  std::vector<EntryValue> entries;
  int half = 0;  ///< instructions before this one are the forward half of a cycle
};

/// Where an input or output of a step lies.
struct Operand {
  /// In a buffer, or in a variable's place; `none`: it is not needed.
  enum class Kind { none, buffer, variable };
  Kind kind = Kind::none;
  int index = 0;           ///< a buffer, or the node of a variable
  std::size_t offset = 0;  ///< where the operand begins in it
  std::size_t bytes = 0;   ///< of a part, less than the whole; 0: all of it

  friend bool operator==(const Operand&, const Operand&) = default;
};

/// One entry of a schedule.
struct Step {
  StepKind kind = StepKind::compute;
  NodeId node = 0;
  int pass = 0;
  bool replay = false;
  std::vector<Operand> inputs{};   ///< compute: one an input of the node; fetch: the value
  std::vector<Operand> outputs{};  ///< one an output of the node
  std::vector<Operand> updated{};  ///< variables that are changed in place
  Operand workspace{};
  int slot = 0;  ///< feed: index into Schedule::feeds; fetch: the caller's index; compute: index of the kernel
  Lane lane = Lane::compute;
  /// Steps of other lanes that must be over before this one starts. Those of its own lane always are.
  std::vector<StepIndex> waits{};
  int offload = -1;         ///< copies: the number of the offload
  int part = 0, parts = 1;  ///< compute: as Instruction's
};

/// One stay of one value, of a part of it, or of a kernel's scratch, in the memory of one tier.
struct Buffer {
  Value value;  ///< invalid for scratch
  std::size_t bytes = 0;
  Life life;  ///< from the step that writes it to the last that reads it
  std::optional<std::size_t> fixed_offset;
  std::vector<Value> other_names{};  ///< values with the same elements, made by nodes that are identities
  Tier tier = Tier::device;
  int offload = -1;  ///< off the device: the number of the offload
  int parts = 1;     ///< of how many equal parts of the value it is one
};

/// What is fetched where.
struct FetchSlot {
  Value value;
  TensorType type;
  std::size_t bytes = 0;
};

/// The steps of one program, and the buffers that they read and write. Executed one after the other in the order of the
/// list they give the right result; what of that order must be kept when lanes run beside each other, `Step::waits`
/// says.
struct Schedule {
  std::vector<Pass> passes;
  std::vector<Step> steps;
  std::vector<Buffer> buffers;
  std::vector<NodeId> feeds;  ///< placeholders, each once
  std::vector<FetchSlot> fetches;
  StepIndex half = 0;                          ///< steps before this one are the forward half of a cycle
  int num_offloads = 0;                        ///< offloads have numbers below this one
  std::vector<StepIndex> step_of_instruction;  ///< by instruction of the writer's list; the next step where an
                                               ///< instruction is none
};

/// Whether a buffer is the scratch that all steps which communicate have in turn (KernelCache::prepare).
inline bool is_scratch_of_ranks(const Buffer& buffer) {
  return !buffer.value.valid() && buffer.life.first < buffer.life.last;
}

/// Who carries copies between device and host: the compute team in its own lane, or a thread for each direction.
enum class CopyCarrier { team, threads };

/// Turns an instruction list into steps and buffers. Lives are set; scratch is added by KernelCache, waits by
/// add_waits. Throws: InternalError when an instruction reads a value that no earlier instruction has written, or a
/// fetch is left out.
Schedule lower_instructions(const InstructionList& list, const ConcreteGraph& graph, std::size_t num_fetches,
                            CopyCarrier carrier = CopyCarrier::team);

/// The bytes of an operand in a buffer.
inline std::size_t operand_bytes(const Schedule& schedule, const Operand& operand) {
  return operand.bytes > 0 ? operand.bytes : schedule.buffers[static_cast<std::size_t>(operand.index)].bytes;
}

/// The buffer that a step which carries bytes between tiers begins; where a variable is copied back to the host, the
/// one that it leaves.
const Buffer& carried_buffer(const Step& step, const Schedule& schedule);

/// Whether a lane is a queue of a device that has some.
inline bool is_queue(Lane lane) {
  return lane == Lane::compute || lane == Lane::copy_out || lane == Lane::copy_in;
}

}  // namespace sectionflow

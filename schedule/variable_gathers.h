#pragma once

#include "schedule/schedule.h"

namespace sectionflow {

/// The instruction list with the instructions that gather the variables which ranks hold in shards (shard_variable):
/// each reader reads what has been gathered before. A run is a forward pass, or a backward pass with what is computed
/// again for it; without sections, the whole list.
///
/// A run's variables are gathered at the beginning of the run before, so that the communication hides behind that, and
/// are dropped with their last reader: those of two runs at most are there at a time. A backward run gathers what the
/// forward pass of its section reads, whether its instructions read it or not: which tensors are kept and which are
/// computed again may differ from rank to rank, and gathers must not. Without sections a variable is gathered while the
/// reader of the one before is still to come, and stays to its last reader.
///
/// What reads a variable behind its update gathers it again. Throws: ArgumentError (SF-E036) for an instruction that
/// updates the variable itself, or one that is a copy (refresh_copy).
InstructionList insert_gathers(const InstructionList& list, const ConcreteGraph& graph);

/// Whether an instruction gathers a variable.
bool is_gather(const Instruction& instruction, const ConcreteGraph& graph);

}  // namespace sectionflow

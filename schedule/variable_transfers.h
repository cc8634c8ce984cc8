#pragma once

#include <functional>

#include "schedule/schedule.h"

namespace sectionflow {

/// The instruction list with the instructions that copy in the variables whose home tier is the host, and back: copy_in
/// and copy_out instructions of no offload. A variable stays on the device from one use to the next if that is near, in
/// the same pass. It is copied back only if it was changed meanwhile: otherwise host memory still has its value.
/// Threads that copy prefetch it, a little early.
InstructionList insert_variable_transfers(const InstructionList& list, const ConcreteGraph& graph,
                                          const std::function<bool(NodeId)>& has_host_home, CopyCarrier carrier);

/// Whether an instruction copies a variable from its home tier or back.
bool is_variable_transfer(const Instruction& instruction);

}  // namespace sectionflow

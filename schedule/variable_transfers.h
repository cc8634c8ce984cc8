#pragma once

#include <functional>

#include "schedule/schedule.h"

namespace sectionflow {

/// The instruction list with the instructions that bring in the variables whose home tier is not the device, and back:
/// copy_in and copy_out instructions of no offload, and for those whose home is on disk a disk_read before the one and
/// a disk_write behind the other. A variable stays on the device from one use to the next if that is near, in the same
/// pass. It goes back only if it was changed meanwhile: otherwise its home still has its value. Threads that copy, and
/// the disk, whose lanes always have threads, begin a little early.
InstructionList insert_variable_transfers(const InstructionList& list, const ConcreteGraph& graph,
                                          const std::function<Tier(NodeId)>& home_of, CopyCarrier carrier);

/// Whether an instruction brings a variable from its home tier or back.
bool is_variable_transfer(const Instruction& instruction);

}  // namespace sectionflow

#pragma once

#include <vector>

#include "base/export.h"
#include "schedule/schedule.h"

namespace SF_API sectionflow {

/// One stay of a value off the device, between two uses. Places are numbers of instructions of a list: "before
/// instruction p", from 0 to the number of instructions.
struct Offload {
  Value value;
  int out = 0;           ///< copied to the host before this instruction
  int in = 0;            ///< copied back before this instruction; a reader stands there, or later
  int hold = -1;         ///< the copy out is expected to be over before this instruction; -1: says nothing
  bool on_disk = false;  ///< moved on to the disk, and read back by way of the host
  int disk_out = 0;      ///< on_disk: written before this instruction
  int disk_in = 0;       ///< on_disk: read back before this instruction
};

/// The instruction list with the instructions that offload the values. Nobody may read a value between `out` and `in`.
/// Offloads are numbered in their order, from the first number that the list does not use. Throws: InternalError unless
/// out <= disk_out <= disk_in <= in and out <= hold <= in, within the list.
InstructionList insert_offloads(const InstructionList& list, const std::vector<Offload>& offloads);

}  // namespace sectionflow

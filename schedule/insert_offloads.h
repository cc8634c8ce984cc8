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

/// The first number of offloads that the list does not use.
int unused_offload(const InstructionList& list);

/// The instruction list with the instructions that offload the values. Nobody may read a value between `out` and `in`.
/// Offloads are numbered in their order, from the first number that the list does not use. Throws: InternalError unless
/// out <= disk_out <= disk_in <= in and out <= hold <= in, within the list.
InstructionList insert_offloads(const InstructionList& list, const std::vector<Offload>& offloads);

/// The turn of an offload's instruction among those of its place. What leaves a tier comes before what enters it, since
/// it frees bytes there: first offloads that move on to the disk, then what leaves the device; then what is copied back
/// to it, then offloads that are merely read back from the disk. An offload that takes two moves at one place takes
/// them one after the other, before the next offload does, so that the host memory between the two moves serves all of
/// them in turn.
int turn_of(StepKind kind, bool both_moves_here);

/// An instruction that comes before another, or behind the last.
struct Insertion {
  int place = 0;  ///< before this instruction
  int turn = 0;   ///< among those of the place: the lower goes first
  Instruction instruction{};
};

/// The instruction list with the insertions by place, turn, and their order here, each in the pass that it stands
/// beside. Between the halves of a cycle what leaves the device belongs to the first, all else to the second.
InstructionList with_insertions(const InstructionList& list, std::vector<Insertion> insertions);

}  // namespace sectionflow

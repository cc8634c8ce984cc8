#pragma once

#include <set>
#include <vector>

#include "schedule/schedule.h"
#include "sections/section_map.h"

namespace sectionflow {

/// One fetch of a cycle. `run`: the section in whose backward run it is evaluated; kForwardPass for the forward pass. A
/// value that waits for an update is evaluated in a lower run where other fetches of the cycle make that update wait.
struct CycleFetch {
  Value value;
  SectionIndex run = 0;
};

/// Values that the user wants to stay on the device although they could be dropped or computed again.
struct HeldValues {
  std::vector<Value> until_backward;  ///< forward values: kept from the forward pass to their last backward reader
  std::vector<Value> until_end;       ///< backward values: kept to the end of the cycle
};

/// The cycle that write_section_schedule is asked for.
struct CycleRequest {
  std::vector<GroupId> groups;      ///< of the sections, in order
  std::vector<Operation> training;  ///< updates to execute
  std::vector<CycleFetch> fetches;  ///< in the caller's order
  HeldValues held;
  /// Values that are kept from the forward pass on although their section could compute them again, if its run reads
  /// them.
  std::set<Value> kept_interior{};
  /// Sections of which all that their backward run reads is kept so.
  std::set<SectionIndex> keeps_interior{};
};

/// The instruction list of a cycle, and the forward values that are kept until backward runs read them.
struct CycleInstructions {
  InstructionList list;
  std::set<Value> kept;
};

/// Writes the instruction list of one full cycle: forward over sections 0..n-1, then for each section n-1..0 its
/// forward again as far as its backward run reads it (not for the last section), its backward nodes, its updates. Says
/// what runs when, what is dropped and what is computed again; knows no bytes, addresses or streams.
CycleInstructions write_section_schedule(const ConcreteGraph& graph, const CycleRequest& request);

/// Writes the backward half alone, for a cycle whose forward half has left `entries` in device memory. What a fetch
/// needs and the forward half did not leave is computed again.
InstructionList write_backward_half(const ConcreteGraph& graph, const CycleRequest& request,
                                    const std::vector<EntryValue>& entries);

}  // namespace sectionflow

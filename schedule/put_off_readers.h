#pragma once

#include "schedule/schedule.h"

namespace sectionflow {

/// The list with the readers of what communicates put off, so that the compute lane does not wait for other ranks while
/// it has something else to do. Nothing is put off that others need: what reads such a reader goes with it.
///
/// By stages: a backward run with what is computed again for it; where there are no sections, what lies between so many
/// communications. What waits for a communication stands behind as many further stages as the list has bytes for: the
/// sums that wait to be read are at most those of the two stages with the most. So one stage is carried while at least
/// the next is differentiated, and large ones may be carried behind several small ones. Which communication comes first
/// follows from the list alone, as it must be the same on all ranks. A list in which nothing communicates is left as it
/// is.
InstructionList put_off_readers(InstructionList list, const ConcreteGraph& graph);

}  // namespace sectionflow

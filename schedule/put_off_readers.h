#pragma once

#include "schedule/schedule.h"

namespace sectionflow {

/// The list with the readers of what communicates put off, so that the compute lane does not wait for other ranks while
/// it has something else to do. Nothing is put off that others need: what reads such a reader goes with it.
///
/// By stages: a backward run with what is computed again for it; where there are no sections, what lies between so many
/// communications. What waits for a communication of one stage stands at the end of the next, at the latest at the end
/// of the list. So gradients of two sections at most are there at a time, and each is carried while the next section is
/// differentiated. Which communication comes first follows from the list alone, as it must be the same on all
/// ranks. A list in which nothing communicates is left as it is.
InstructionList put_off_readers(InstructionList list, const ConcreteGraph& graph);

}  // namespace sectionflow

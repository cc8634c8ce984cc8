#pragma once

#include <string>
#include <vector>

#include "fit/written_list.h"

namespace sectionflow {

/// What a list of anybody's is held against.
struct ListToBe {
  const InstructionList& written;
  const ConcreteGraph& graph;
  std::string where;  ///< begins the errors
};

/// Throws a DataError (SF-E102) unless `list`, whose instructions are those of `planned`, gives what the written list
/// gives: it executes each of its instructions, once what has an effect, is fetched or is copied there; reads and
/// changes variables behind the same updates of them; keeps the order of control edges; and has each first execution in
/// the half that it has there.
void check_same_results(const InstructionList& list, const std::vector<PlannedInstruction>& planned,
                        const ListToBe& wanted);

}  // namespace sectionflow

#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/session.h"
#include "train/towers.h"
#include "train/variable_file.h"

namespace sectionflow {

/// Throws: ArgumentError where a session is torn (SF-E323), and where it has no values yet (SF-E321).
void check_whole(const Session& session);
/// Throws: ArgumentError (SF-E322) while a forward half is pending. `call`: "write".
void check_no_half(const Session& session, const char* call);
/// The same, and (SF-E035) while averages stand in the place of the weights: the end of that scope would exchange what
/// has been set, on this session alone.
void check_can_set(const Session& session, const char* call);
/// The variable of that name. Throws: as Session::read and Session::write, whose texts these are. `call`: "read".
Value known_variable(const Tower& tower, const std::string& name, const char* call);
/// The variable of that name, which can be set to such a tensor. Throws: as Session::write, whose texts these are;
/// where the session is torn (SF-E323).
Value settable_variable(const Tower& tower, const std::string& name, const TensorType& type);

/// Throws: ArgumentError (SF-E033) where the session is amid the micro-batches of an update. The sums of a round are of
/// as many micro-batches as it has towers.
void check_between_updates(Session& session, const char* call);
/// The same of what a file would make of the session. Throws: as match_variables.
void check_between_updates(const Session& session, const VariableFile& file, const LoadOptions& options);

}  // namespace sectionflow

#pragma once

#include <string>

#include "base/export.h"
#include "runtime/session.h"

namespace SF_API sectionflow {

/// Writes every variable (parameters, slots, statistics) of a session to a safetensors file, by variable name; the old
/// file stays whole if anything fails. Throws: DataError; ArgumentError before initialize().
void save_variables(Session& session, const std::string& path);

/// Sets every variable of a session to what save_variables has written, whichever strategy trained it. The file is not
/// trusted: names, dtypes and shapes must be those of the session's graph, all of them; otherwise nothing is changed.
/// Counters of the session are not in the file. Throws: DataError with the first differences, or for a missing or
/// damaged file; ArgumentError before initialize().
void load_variables(Session& session, const std::string& path);

}  // namespace sectionflow

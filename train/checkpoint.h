#pragma once

#include <string>

#include "base/export.h"
#include "runtime/session.h"

namespace SF_API sectionflow {

/// Writes every variable (parameters, slots, statistics) of a session to a safetensors file, by variable name; the old
/// file stays whole if anything fails. Throws: DataError; ArgumentError before initialize().
void save_variables(Session& session, const std::string& path);

}  // namespace sectionflow

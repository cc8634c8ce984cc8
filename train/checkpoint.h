#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "base/export.h"
#include "runtime/session.h"
#include "swap/profile.h"

namespace SF_API sectionflow {

/// What a file of variables tells besides them.
struct CheckpointNotes {
  /// The speeds that plans were made by: the same plans are made where training goes on.
  std::optional<Profile> profile{};
};

/// Writes every variable (parameters, slots, statistics) of a session to a safetensors file, by variable name, and the
/// notes, Session::completed_cycles, Session::algorithm_choices and a hash of each tensor as its metadata; the old file
/// stays whole if anything fails. Throws: DataError; ArgumentError before initialize().
void save_variables(Session& session, const std::string& path, const CheckpointNotes& notes = {},
                    Where where = Where::here());

/// Sets every variable of a session to what save_variables has written, whichever strategy trained it. The file is not
/// trusted: names, dtypes and shapes must be those of the session's graph, all of them, and hashes must be right;
/// otherwise nothing is changed. The session's count of cycles becomes the file's, so that random operations go on as
/// they would have (with the seed they had); it stays where the file has none. The file's algorithms go to
/// Session::use_algorithms. Gives back the notes. Throws: DataError with the first differences, or for a missing or
/// damaged file, tensor or note; ArgumentError before initialize(), and while a forward half is pending.
CheckpointNotes load_variables(Session& session, const std::string& path, Where where = Where::here());

}  // namespace sectionflow

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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
/// notes, Session::completed_cycles, Session::algorithm_choices, the names of the slots, the settings of the updates
/// and a hash of each tensor as its metadata; the old file stays whole if anything fails. Throws: DataError;
/// ArgumentError before initialize().
void save_variables(Session& session, const std::string& path, const CheckpointNotes& notes = {},
                    Where where = Where::here());

/// Tensors of a file that go by other names in the graph. A pattern has one '*', for any text: {"old/*", "new/*"}.
struct Renaming {
  std::string from{};
  std::string to{};
};

/// What load_variables takes of a file. The default: everything, all of which must be there.
struct LoadOptions {
  /// Patterns of the names, in the graph, of variables to load: "encoder/*". Empty: all. A '*' stands for any text. A
  /// pattern that no variable fits is one of the names in the file of tensors that are renamed.
  std::vector<std::string> only{};
  /// Names that differ; the first that fits a tensor is its name. Two that are loaded must not get the same one.
  std::vector<Renaming> rename{};
  /// Variables that the file does not have stay as they are.
  bool allow_missing = false;
  /// Tensors of the file that no variable asks for are left out.
  bool allow_extra = false;
  /// Without what training has added: an optimiser's slots and counters, in the graph and in the file. For inference,
  /// and for training on by another optimiser.
  bool weights_only = false;
};

/// What load_variables has done.
struct LoadReport {
  std::vector<std::string> loaded{};  ///< variables that have the file's values now
  std::vector<std::string> kept{};    ///< variables that are as they were
  std::vector<std::string> unused{};  ///< tensors of the file, by its names, that no variable has got
  /// What the session's count of cycles became; nothing where it stayed.
  std::optional<std::uint64_t> completed_cycles{};
  std::optional<Profile> profile{};  ///< of the file's notes

  /// "loaded 12 variables; kept 2: 'a', 'b'; not used: 1 tensor, 'c'"
  std::string text() const;
};

/// Sets variables of a session to what save_variables or Checkpoints has written, whichever strategy, device or budget
/// trained them. `path`: a safetensors file, of whatever program, or a checkpoint's folder ("run/step-100"). It is not
/// trusted: what is asked for must be there, with the types of the graph's variables, and hashes must be right;
/// otherwise nothing is changed. Where everything is loaded (no `only`, no `weights_only`), the session's count of
/// cycles becomes the file's, so that random operations go on as they would have (with the seed they had); it stays
/// where the file has none. The file's algorithms then go to Session::use_algorithms. A
/// warning tells where the graph's updates are others than those of the file (micro-batches, decay, averages, clipping
/// and options of the optimiser, but not its rate).
/// Throws: DataError (SF-E424) with the first differences and their number; DataError for a missing or damaged file,
/// tensor or note; ArgumentError for a pattern that fits nothing, before initialize(), and while a forward half is
/// pending.
LoadReport load_variables(Session& session, const std::string& path, const LoadOptions& options = {},
                          Where where = Where::here());

}  // namespace sectionflow

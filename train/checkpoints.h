#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "runtime/session.h"
#include "swap/profile.h"
#include "train/checkpoint.h"

namespace SF_API sectionflow {

class Trainer;

/// Which checkpoints stay, and how they are written.
struct CheckpointOptions {
  /// So many of the last ones stay; older ones are deleted once a new one is complete.
  int keep = 3;
  /// The metric by which the best one stays too, however old it is; empty: none does.
  std::string best_metric{};
  bool higher_is_better = false;  ///< of that metric: true for an accuracy, false for a loss
  /// save() copies the variables to host memory and returns; a thread writes them. The copy counts in
  /// SessionOptions::host_memory. Where it does not fit, save() writes before it returns, and says so.
  bool asynchronous = false;
  /// save() throws when so many saves in a row have failed; 0: never.
  int stop_after_failures = 0;
};

/// What a checkpoint keeps besides the variables, the count of cycles and the seed.
struct SaveOptions {
  std::int64_t step = 0;
  /// Where the data go on, as DatasetIterator::position tells; any text in UTF-8.
  std::string data_position{};
  std::map<std::string, double> metrics{};  ///< "loss", "accuracy"
  /// The speeds that plans were made by: the same plans are made where training goes on. Absent: those that fit_budget
  /// plans by for the session, if they are not the nominal ones.
  std::optional<Profile> profile{};
  /// How it was trained, as a note: any other strategy may go on.
  std::string strategy{};
};

/// A checkpoint of a folder, as its manifest tells.
struct CheckpointInfo {
  std::int64_t step = 0;
  std::string path{};
  std::string
      problem{};  ///< what is wrong with a manifest that cannot be read, and nothing below is known; empty: none
  std::string data_position{};
  std::map<std::string, double> metrics{};
  std::uint64_t completed_cycles = 0;
  std::uint64_t seed = 0;
  std::vector<std::string> optimizers{};  ///< operations that apply gradients: "apply_adam"
  std::string strategy{};
  std::string device{};         ///< "cpu (2 threads), oneDNN 2.6.3, avx512": what decides the bits
  std::uint64_t num_bytes = 0;  ///< of the file of variables
  std::optional<Profile> profile{};
  std::vector<std::string> kept{};  ///< names of what parts of the session have kept: "plan" of fit_budget
};

/// What restoring has done.
struct RestoredCheckpoint {
  CheckpointInfo checkpoint;
  LoadReport report;
};

/// Figures of a Checkpoints.
struct CheckpointStatistics {
  std::int64_t saved = 0;
  std::int64_t failures = 0;
  int failures_in_a_row = 0;
  std::string last_failure{};
  /// Saves that were to be asynchronous and were not, as host memory had no place for the copy.
  std::int64_t saved_synchronously = 0;
  // Of the last save that is complete:
  std::uint64_t num_bytes = 0;
  double blocked_seconds = 0;  ///< until save() returned
  double total_seconds = 0;    ///< until the checkpoint was complete
};

/// A folder of checkpoints, from which training goes on after whatever has ended it.
///
///   Checkpoints checkpoints("run", {.keep = 3, .best_metric = "loss"});
///   session.initialize();
///   std::int64_t step = 0;
///   if (const auto restored = checkpoints.restore_latest(session)) step = restored->checkpoint.step;
///   while (...) {
///     ...
///     if (++step % 100 == 0) checkpoints.save(session, {.step = step, .metrics = {{"loss", loss}}});
///   }
///
/// A checkpoint is a folder `step-N` of a safetensors file and a manifest with a hash of each tensor and of itself. It
/// appears whole or not at all; `latest` names the last one. Kills, loss of power and full disks leave the one before.
/// docs/checkpoints.md describes the format. A plan of fit_budget is kept with it, and serves where the training goes
/// on. One process at a time writes to a folder.
///
/// Threads: one at a time, that of the session. The end of a Checkpoints waits for what is being written; where that
/// fails, the log says so.
class Checkpoints {
 public:
  /// Touches no file: the folder is made by open() or the first save(). Throws: ArgumentError for options that mean
  /// nothing.
  explicit Checkpoints(std::string folder, CheckpointOptions options = {}, Where where = Where::here());
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  /// Makes the folder, and keeps other processes from writing to it, before there is anything to save; save() does so
  /// by itself. Throws: DataError where the folder cannot be made, opened or written to, and (SF-E423) while another
  /// writes to it; ArgumentError for a folder that is a checkpoint itself, or has records and no checkpoint, which any
  /// other call refuses as well.
  void open(Where where = Where::here());
  /// Saves all variables, or begins to. True where nothing has failed. A disk that is full or refuses is no error of
  /// the training: what was begun is removed, older checkpoints stay, a warning tells why, statistics() counts it, and
  /// false comes back; of an asynchronous save, from the call that follows it. A checkpoint of the same step is
  /// replaced. Throws: DataError (SF-E420) where CheckpointOptions::stop_after_failures is reached; ArgumentError
  /// before initialize(), while a forward half is pending, and for a step below 0 or texts that are not UTF-8, names of
  /// variables among them; ArgumentError (SF-E036) where ranks hold variables in shards (save_variables takes these).
  bool save(Session& session, const SaveOptions& options, Where where = Where::here());
  /// Waits for what is being written. True where it has not failed. Throws: as save() where it has.
  bool wait(Where where = Where::here());

  /// Sets the session to the checkpoint that `latest` names or, where that is damaged, to the newest that is not, with
  /// one warning that tells what was wrong. Nothing comes back where the folder has no checkpoint,
  /// with a warning where one in it has some.
  /// Throws: DataError (SF-E421) where all are damaged, and DataError (SF-E424) where the checkpoint is sound and of
  /// other variables; ArgumentError as load_variables. The session is then as it was.
  std::optional<RestoredCheckpoint> restore_latest(Session& session, const LoadOptions& options = {},
                                                   Where where = Where::here());
  /// Sets the session to the checkpoint of that step. Throws: as restore_latest, and DataError where there is none.
  RestoredCheckpoint restore(Session& session, std::int64_t step, const LoadOptions& options = {},
                             Where where = Where::here());

  /// The checkpoints of the folder, the oldest first, as far as their manifests tell: tensors are not read.
  std::vector<CheckpointInfo> list(Where where = Where::here()) const;

  const std::string& folder() const;
  const CheckpointOptions& options() const;
  const CheckpointStatistics& statistics() const;

 private:
  friend class CheckpointCallback;
  friend std::optional<RestoredCheckpoint> resume(Trainer& trainer, Checkpoints& checkpoints, Where where);
  /// Tells the folder, once it is there, from all others, however it is spelt and wherever it is moved.
  std::string identity() const;
  bool has_saved(const Session& session) const;

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sectionflow

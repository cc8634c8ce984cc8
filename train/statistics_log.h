#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "runtime/session.h"
#include "train/callback.h"

namespace SF_API sectionflow {

/// What the counters of a session have grown by in a step, by the names of TensorFlow Large Model Support's callbacks.
struct StepStatistics {
  double duration = 0;            ///< seconds
  std::int64_t allocs = 0;        ///< Statistics::num_allocs
  std::int64_t reclaim_ones = 0;  ///< num_single_reclaims
  std::int64_t reclaim_alls = 0;  ///< num_full_reclaims
  double gib_reclaimed = 0;       ///< bytes_reclaimed
};

/// Takes the differences of a session's counters from step to step.
class StatisticsDifferences {
 public:
  void begin(const Session& session) { before_ = session.statistics(); }
  StepStatistics step(const Session& session, double duration);

 private:
  Statistics before_;
};

/// Writes a CSV file with a row for each step and for each batch of an evaluation: "step type" ('t' or 'v'), "epoch",
/// "step", "duration", "allocs", "reclaimOnes", "reclaimAlls", "GiB reclaimed". Each row is in the file when its step
/// is done; a process that is killed leaves part of one at most.
///
/// A training that begins takes the place of a file that is there. One that goes on, from a checkpoint or after another
/// fit, goes on in the file: behind the last row of the steps that it does not make again. Rows of later steps are
/// taken out, and so are those of an evaluation that is made again. The rows of an evaluation outside of trainings
/// follow what is there.
///
/// What a disk refuses is no error of the training: the first time is a warning, failures() counts, and the rows are
/// held in memory, some 60 bytes each, until the disk takes them.
/// Source: the statistics callbacks of IBM's TensorFlow Large Model Support.
class StatisticsCsv final : public Callback {
 public:
  /// Makes the folder of the file. Throws: DataError where a file of that name cannot be written.
  explicit StatisticsCsv(const std::string& path, Where where = Where::here());
  ~StatisticsCsv() override;
  StatisticsCsv(const StatisticsCsv&) = delete;
  StatisticsCsv& operator=(const StatisticsCsv&) = delete;
  /// Throws: DataError where a training is to go on in a file that is none of this callback's, or cannot be read; it is
  /// as it was then.
  void on_begin(const TrainerState& state) override;
  void on_step_begin(const TrainerState& state, Feeds& feeds) override;
  void on_step(const TrainerState& state) override;
  /// Throws: as on_begin, outside of trainings.
  void on_evaluation_step(const TrainerState& state) override;
  void on_epoch(const TrainerState& state) override;
  void on_end(const TrainerState& state) override;
  std::optional<std::vector<std::string>> logged_names() const override { return std::vector<std::string>{}; }

  /// Times that the disk has refused rows.
  std::int64_t failures() const;

 private:
  void add_row(char type, const TrainerState& state);

  class Table;
  std::unique_ptr<Table> table_;
  StatisticsDifferences differences_;
};

/// Which steps StatisticsAverages takes, and what a step's pixels are.
struct StatisticsAveragesOptions {
  std::int64_t image_size = 0;   ///< side of the images, in pixels; must be set
  int dims = 2;                  ///< 3: of volumes, and voxels
  std::int64_t start_epoch = 0;  ///< the first epoch to count, from 0
  std::int64_t start_batch = 2;  ///< the first batch of each, from 0: those before it warm up
};

/// Appends one row to a CSV file when a training ends: image_size, megapixels/sec (megavoxels/sec in 3-D) by the mean
/// and by the median of the steps' seconds, GiB reclaimed, then the other averages by name: allocs, duration,
/// num_steps, reclaimAlls, reclaimOnes. A file that is not there yet gets the line of names first. Runs over sizes and
/// strategies so make a table. Zeros where no step was counted.
class StatisticsAverages final : public Callback {
 public:
  /// Makes the folder of the file. Throws: ArgumentError for an image_size below 1, dims other than 2 and 3, or
  /// negative starts; DataError where the file cannot be written.
  StatisticsAverages(const std::string& path, StatisticsAveragesOptions options, Where where = Where::here());
  void on_begin(const TrainerState& state) override;
  void on_step_begin(const TrainerState& state, Feeds& feeds) override;
  void on_step(const TrainerState& state) override;
  void on_end(const TrainerState& state) override;
  std::optional<std::vector<std::string>> logged_names() const override { return std::vector<std::string>{}; }

 private:
  std::string row() const;

  std::string path_;
  StatisticsAveragesOptions options_;
  StatisticsDifferences differences_;
  std::vector<StepStatistics> steps_;
  std::int64_t batch_size_ = 0;
};

}  // namespace sectionflow

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "train/callback.h"
#include "train/event_writer.h"

namespace SF_API sectionflow {

/// What TensorBoard writes, and how often.
struct TensorBoardOptions {
  /// Numbers of so many steps each, and of the first and the last of a fit; 0: of epochs and evaluations alone.
  std::int64_t every_steps = 1;
  /// Histograms of weights and, of a section manager whose TrainingOptions::summaries are set, of gradients; 0: none.
  std::int64_t histogram_steps = 0;
  bool graph = true;  ///< once, as it is after the first step
  /// The step whose operations are timed, counted over all fits from 1; 0: none. A later one than the first: what that
  /// takes to begin is nobody's time.
  std::int64_t profile_step = 0;
  EventWriterOptions file{};
};

/// Writes event files of a training for TensorBoard, into a folder of the run:
/// - "loss", the metrics, what callbacks log ("learning_rate"), "speed/examples_per_second", "speed/data_share" (of the
///   steps' time, what they waited for data) and "memory/peak_bytes" of the device, at steps;
/// - "val_..." at evaluations; "epoch/loss", ... at ends of epochs: means over the epoch;
/// - histograms "weights of ..." and "gradients of ...", the graph, and the times of one step's operations.
///
/// The folder is made as a training begins, which is refused where none can be made there. What a disk refuses later is
/// no error of the training: the first time is a warning, failures() counts. A training that goes on from a checkpoint
/// writes a new file into the same folder; what it trains again has the same numbers.
/// The step that is profiled is traced as TrainerState::trace_step says.
class TensorBoard final : public Callback {
 public:
  /// Touches no file. Throws: ArgumentError for negative numbers.
  explicit TensorBoard(const std::string& folder, TensorBoardOptions options = {}, Where where = Where::here());
  /// Makes the folder; the file is made when there is something to write. Throws: DataError where files cannot be made
  /// there.
  void on_begin(const TrainerState& state) override;
  void on_step_begin(const TrainerState& state, Feeds& feeds) override;
  void on_step(const TrainerState& state) override;
  void on_evaluation(const TrainerState& state, const Logs& results) override;
  void on_epoch(const TrainerState& state) override;
  void on_end(const TrainerState& state) override;
  std::optional<std::vector<std::string>> logged_names() const override { return std::vector<std::string>{}; }

  bool shows_logs() const override { return true; }

  /// Events that could not be written.
  std::int64_t failures() const { return failures_; }

 private:
  void note_failure(const DataError& error);
  void open();
  bool write(const std::function<void(EventWriter&)>& events);
  void write_step(const TrainerState& state);

  std::string folder_;
  TensorBoardOptions options_;
  std::optional<EventWriter> writer_{};
  bool has_graph_ = false, wants_graph_ = false;
  bool is_to_open_ = false;        // by this fit, as far as there is no file
  bool is_to_start_ = false;       // an event that tells from which step on earlier ones are dropped
  std::int64_t num_examples_ = 0;  // since the last numbers of steps, and
  double seconds_ = 0, data_seconds_ = 0;
  std::int64_t first_step_ = 0;                    // of the fit
  std::int64_t most_step_ = 0;                     // that this file has an event of
  std::int64_t last_step_ = 0, written_step_ = 0;  // that was done, and whose numbers are written
  Logs last_logs_{};                               // of the step that was done last
  std::int64_t failures_ = 0;
};

}  // namespace sectionflow

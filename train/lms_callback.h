#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "swap/lms.h"
#include "train/callback.h"

namespace SF_API sectionflow {

/// Edits the graph with Lms before the first step of a training, as TensorFlow Large Model Support does as a callback
/// of Keras and as a hook of estimators: so its simulation knows the size of the batches and the session's device. What
/// LmsOptions says of either goes before. Later steps and trainings find the graph edited; so do evaluations and
/// predictions, which take it as it is. For trainings of the whole graph: sections decide for themselves what leaves
/// the device.
class LmsCallback final : public Callback {
 public:
  /// The graph is that of the trainer's session; it must outlive this. Throws: as Lms.
  explicit LmsCallback(Graph& graph, LmsOptions options = {}, Where where = Where::here());
  /// Throws: as Lms::run, and ArgumentError (SF-E210) where sections are trained; the graph is then unchanged.
  void on_step_begin(const TrainerState& state, Feeds& feeds) override;
  std::optional<std::vector<std::string>> logged_names() const override { return std::vector<std::string>{}; }

  /// What Lms has found and done; nothing before the first step.
  const std::optional<LmsResult>& result() const { return result_; }

 private:
  Graph& graph_;
  LmsOptions options_;
  std::optional<LmsResult> result_;
};

}  // namespace sectionflow

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/export.h"
#include "train/callback.h"

namespace SF_API sectionflow {

class RangeMarks;

/// Has Nsight Systems show what of a training the GPU's kernels belong to: ranges of NVTX called "fit", "epoch 3" and,
/// within it, "step 1200", of the domain SectionFlow. An evaluation at the end of an epoch lies in the epoch's range,
/// behind its last step. Give it first, so that the steps' ranges hold what other callbacks do.
///
///   nsys profile --trace=cuda,nvtx ./train
///
/// Changes no bit, and costs some calls a step; on the CPU, and where no profiler watches, nothing is recorded.
class NvtxRanges final : public Callback {
 public:
  NvtxRanges();
  ~NvtxRanges() override;
  void on_begin(const TrainerState& state) override;
  void on_step_begin(const TrainerState& state, Feeds& feeds) override;
  void on_step(const TrainerState& state) override;
  void on_epoch(const TrainerState& state) override;
  void on_end(const TrainerState& state) override;
  std::optional<std::vector<std::string>> logged_names() const override { return std::vector<std::string>{}; }

 private:
  std::unique_ptr<RangeMarks> marks_;
};

}  // namespace sectionflow

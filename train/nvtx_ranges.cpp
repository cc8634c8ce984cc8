#include "train/nvtx_ranges.h"

#include "base/error.h"
#include "runtime/range_marks.h"

namespace sectionflow {
namespace {

// How many ranges are open outside of an epoch and of a step.
constexpr int kOpenInFit = 1, kOpenInEpoch = 2;

}  // namespace

NvtxRanges::NvtxRanges() : marks_(std::make_unique<RangeMarks>()) {}
NvtxRanges::~NvtxRanges() = default;

void NvtxRanges::on_begin(const TrainerState& state) {
  *marks_ = RangeMarks(state.session);
  marks_->begin("fit");
}

void NvtxRanges::on_step_begin(const TrainerState& state, Feeds& /*feeds*/) {
  if (!marks_->are_on()) return;
  if (marks_->depth() == kOpenInFit) marks_->begin(text_of("epoch ", state.epoch));
  marks_->begin(text_of("step ", state.step + 1));
}

void NvtxRanges::on_step(const TrainerState& /*state*/) {
  marks_->end_down_to(kOpenInEpoch);
}

void NvtxRanges::on_epoch(const TrainerState& /*state*/) {
  marks_->end_down_to(kOpenInFit);
}

void NvtxRanges::on_end(const TrainerState& /*state*/) {
  marks_->end_down_to(0);
}

}  // namespace sectionflow

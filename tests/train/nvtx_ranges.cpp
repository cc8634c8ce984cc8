// NvtxRanges: what a profiler would be shown, on an emulated GPU whose ranges are written down, and without a GPU.

#include "train/nvtx_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "device/cuda_module.h"
#include "runtime/range_marks.h"
#include "tests/support/emulated_device.h"
#include "tests/train/small_training.h"

namespace sectionflow {
namespace {

using namespace testing_support;

std::vector<std::string> open_ranges, marked_ranges;

/// While it lives, cuda(0) is an emulated GPU whose ranges are written down, each with those that it lies in.
class WatchedCuda {
 public:
  WatchedCuda() : module_(cuda_module()) {  // that of emulated_, which is there first
    open_ranges.clear();
    marked_ranges.clear();
    module_.push_range = [](const char* name) {
      open_ranges.emplace_back(name);
      std::string path;
      for (const std::string& each : open_ranges) path += (path.empty() ? "" : " > ") + each;
      marked_ranges.push_back(path);
    };
    module_.pop_range = [] {
      ASSERT_FALSE(open_ranges.empty()) << "a range is ended that was not begun";
      open_ranges.pop_back();
    };
    set_cuda_module(&module_);
  }
  ~WatchedCuda() { set_cuda_module(nullptr); }

 private:
  EmulatedCuda emulated_{{.kernels = EmulatedKernels::cpu}};
  CudaModule module_;
};

/// Trains four steps of three a pass; returns what the session's variables are then.
std::map<std::string, HostTensor> trained_with(const DeviceSpec& device, std::vector<Callback*> callbacks) {
  SmallModel model(true);
  SessionOptions options = small_session();
  options.device = device;
  Session session(model.graph, options);
  session.initialize();
  LearningRate rate(model.rate, constant_rate(0.01));
  callbacks.push_back(&rate);
  FunctionBatches batches(small_batch);
  Trainer trainer = model.trainer(session);
  trainer.fit(batches, {.max_steps = 4, .callbacks = std::move(callbacks)});
  return variables_of(session);
}

TEST(NvtxRanges, NameFitEpochsAndStepsOneWithinTheOther) {
  const WatchedCuda cuda_here;
  NvtxRanges ranges;
  const auto with = trained_with(cuda(0), {&ranges});
  EXPECT_THAT(marked_ranges,
              testing::ElementsAre("fit", "fit > epoch 1", "fit > epoch 1 > step 1", "fit > epoch 1 > step 2",
                                   "fit > epoch 1 > step 3", "fit > epoch 2", "fit > epoch 2 > step 4"));
  EXPECT_TRUE(open_ranges.empty());
  EXPECT_EQ(difference_of(with, trained_with(cuda(0), {})), "") << "no bit changes";
}

TEST(NvtxRanges, AreEndedWhereACallbackThrows) {
  const WatchedCuda cuda_here;
  NvtxRanges ranges;
  Hooks throwing;
  throwing.step = [](const TrainerState&) { throw ArgumentError("on purpose"); };
  EXPECT_THROW(trained_with(cuda(0), {&throwing, &ranges}), ArgumentError);
  EXPECT_FALSE(marked_ranges.empty());
  EXPECT_TRUE(open_ranges.empty());
}

TEST(NvtxRanges, MarkNothingOnTheCpuAndOnAGpuWithoutThem) {
  NvtxRanges ranges;
  EXPECT_EQ(difference_of(trained_with(cpu(), {&ranges}), trained_with(cpu(), {})), "");
  {
    SmallModel model(false);
    Session session(model.graph, small_session());
    RangeMarks marks(session);
    EXPECT_FALSE(marks.are_on());
    marks.begin("nothing");
    marks.end();
    EXPECT_EQ(marks.depth(), 0);
  }
  const EmulatedCuda emulated({.kernels = EmulatedKernels::cpu});
  SmallModel model(false);
  Session session(model.graph, {.device = cuda(0), .device_memory = 4_MiB});
  EXPECT_FALSE(RangeMarks(session).are_on());
}

}  // namespace
}  // namespace sectionflow

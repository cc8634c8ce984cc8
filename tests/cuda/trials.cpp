// Where a session lets algorithms be tried and timed while kernels are made.

#include <gtest/gtest.h>

#include <vector>

#include "base/bytes.h"
#include "device/cuda_module.h"
#include "graph/op_registry.h"
#include "graph/ops/arithmetic.h"
#include "kernels/cuda/cuda_kernels.h"
#include "runtime/engine.h"
#include "sections/graph_section_manager.h"
#include "tests/support/emulated_device.h"
#include "tests/support/tiny_model.h"

namespace sectionflow {
namespace {

using namespace testing_support;

constexpr std::size_t kBudget = 8_MiB;

/// What kernels that are made see of the device.
struct Seen {
  bool autotune;
  TrialMemory memory;
};
std::vector<Seen> seen;
Device* seen_device = nullptr;

std::unique_ptr<Kernel> look_and_make(const KernelRequest& request) {
  seen_device = &request.device;
  seen.push_back({request.device.choices().autotune(), request.device.choices().trial_memory()});
  return cuda_kernels().make(request);
}

const KernelRegistry& looking_kernels() {
  static const KernelRegistry kernels = [] {
    KernelRegistry all;
    for (const auto& [name, definition] : op_registry().all()) {
      if (cuda_kernels().has(name)) all.add(name, look_and_make, Bf16::native);
    }
    return all;
  }();
  return kernels;
}

class Trials : public testing::Test {
 protected:
  Trials() {
    set_cuda_module(&module_);
    seen.clear();
    seen_device = nullptr;
    model_ = build_tiny(graph_, manager_, 2, Adam{});
  }
  ~Trials() override { set_cuda_module(nullptr); }

  /// Compiles something new.
  std::vector<Seen> seen_in_a_plan(Session& session) {
    seen.clear();
    (void)session.plan({model_.loss + static_cast<float>(++num_plans_)}, types_of(model_.feeds(tiny_batch(0))));
    EXPECT_FALSE(seen.empty());
    EXPECT_TRUE(seen_device->choices().trial_memory().lent.empty()) << "only while kernels are made";
    EXPECT_EQ(seen_device->choices().trial_memory().most_allocated, 0u);
    return seen;
  }
  void expect_nothing(Session& session, bool autotune) {
    for (const Seen& at : seen_in_a_plan(session)) {
      EXPECT_EQ(at.autotune, autotune);
      EXPECT_TRUE(at.memory.lent.empty());
      EXPECT_EQ(at.memory.most_allocated, 0u);
    }
  }

  Graph graph_;
  GraphSectionManager manager_{graph_};
  TrainableModel model_;
  int num_plans_ = 0;
  CudaModule module_{.num_devices = 1,
                     .make_device = [](const DeviceSpec&) { return make_emulated_device(); },
                     .kernels = looking_kernels};
};

TEST_F(Trials, HaveTheSameMemoryWithoutAutotune) {
  Session session(graph_, {.device = cuda(), .device_memory = kBudget});
  for (const Seen& at : seen_in_a_plan(session)) {
    EXPECT_FALSE(at.autotune);
    EXPECT_EQ(at.memory.most_allocated, kBudget);
  }
  session.initialize();
  for (const Seen& at : seen_in_a_plan(session)) EXPECT_FALSE(at.memory.lent.empty());
}

TEST_F(Trials, MayAllocateWithinTheBudgetBeforeTheArenaIsThere) {
  Session session(graph_, {.device = cuda(0, {.autotune = true}), .device_memory = kBudget});
  for (const Seen& at : seen_in_a_plan(session)) {
    EXPECT_TRUE(at.autotune);
    EXPECT_TRUE(at.memory.lent.empty());
    EXPECT_EQ(at.memory.most_allocated, kBudget);
  }
}

TEST_F(Trials, AreLentTheArenaBehindTheVariables) {
  Session session(graph_, {.device = cuda(0, {.autotune = true}), .device_memory = kBudget});
  session.initialize();
  const Engine::Workbench bench = engine(session).workbench();
  for (const Seen& at : seen_in_a_plan(session)) {
    EXPECT_EQ(at.memory.lent.data(), bench.region.data());
    EXPECT_EQ(at.memory.lent.size(), bench.region.size());
    EXPECT_EQ(at.memory.most_allocated, 0u);
  }
}

TEST_F(Trials, AreLentWhatLiesBehindAPendingForwardHalf) {
  Session session(graph_, {.device = cuda(0, {.autotune = true}), .device_memory = kBudget});
  session.initialize();
  const std::span<std::byte> region = engine(session).workbench().region;
  (void)manager_.run_forward(session, {model_.loss}, model_.feeds(tiny_batch(0)));
  const std::size_t left = round_up(engine(session).pending()->plan.peak_bytes);
  ASSERT_GT(left, 0u);
  for (const Seen& at : seen_in_a_plan(session)) {
    EXPECT_EQ(at.memory.lent.data(), region.data() + left);
    EXPECT_EQ(at.memory.lent.size(), region.size() - left);
  }
  manager_.discard_forward(session);
  EXPECT_EQ(seen_in_a_plan(session).front().memory.lent.data(), region.data());
}

TEST_F(Trials, HaveNoMemoryWhileAForwardHalfIsMeasured) {
  Session session(graph_, {.device = cuda(0, {.autotune = true}), .device_memory = kBudget});
  session.initialize();
  session.set_measuring(true);
  (void)manager_.run_forward(session, {model_.loss}, model_.feeds(tiny_batch(0)));
  expect_nothing(session, true);
  // Nor is the peak a trial's when measuring is off meanwhile.
  session.set_measuring(false);
  expect_nothing(session, true);
  manager_.discard_forward(session);
  // A half that began without canaries is not measured.
  (void)manager_.run_forward(session, {model_.loss}, model_.feeds(tiny_batch(0)));
  session.set_measuring(true);
  for (const Seen& at : seen_in_a_plan(session)) EXPECT_FALSE(at.memory.lent.empty());
}

TEST_F(Trials, AProgramThatCannotBeCompiledLeavesNoneBehind) {
  Session session(graph_, {.device = cuda(0, {.autotune = true}), .device_memory = kBudget});
  (void)seen_in_a_plan(session);
  EXPECT_THROW((void)session.plan({model_.loss}, {}), Error);
  EXPECT_EQ(seen_device->choices().trial_memory().most_allocated, 0u);
}

}  // namespace
}  // namespace sectionflow

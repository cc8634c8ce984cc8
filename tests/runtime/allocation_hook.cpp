// A program of its own: it replaces operator new and the functions of the malloc family.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/allocation_scope.h"
#include "base/bytes.h"
#include "device/throttle.h"
#include "graph/ops/basic.h"
#include "graph/ops/unary.h"
#include "runtime/arena.h"
#include "runtime/disk_store.h"
#include "runtime/engine.h"
#include "runtime/lane_team.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_offloads.h"
#include "tests/support/replaced_malloc.h"
#include "tests/support/replaced_new.h"
#include "tests/support/schedule_editing.h"
#include "tests/support/temporary_folder.h"

namespace {

/// The scope of the thread that executes steps; threads of its team allocate on its behalf.
const sectionflow::AllocationScope* watched = nullptr;
std::atomic<int> num_new = 0, num_malloc = 0;

}  // namespace

#ifndef SF_NO_ALLOCATION_HOOK

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
extern const char __executable_start, etext;
}

namespace {

bool in_step_of_ours() {
  return watched != nullptr && watched->in_step > 0 && watched->in_library == 0;
}

/// Whether the caller is code of this program, in which all of SectionFlow is linked, and not of a shared library.
bool is_ours(const void* caller) {
  return caller >= &__executable_start && caller < &etext;
}

}  // namespace

namespace sectionflow::testing_support {

void observe_malloc(std::size_t, const void* caller) noexcept {
  if (in_step_of_ours() && is_ours(caller)) ++num_malloc;
}
void* replaced_new(std::size_t num_bytes, std::size_t alignment) noexcept {
  if (in_step_of_ours()) ++num_new;
  return alignment == 0 ? __libc_malloc(num_bytes) : __libc_memalign(alignment, num_bytes);
}
void replaced_delete(void* bytes) noexcept {
  std::free(bytes);
}

}  // namespace sectionflow::testing_support

#endif

namespace sectionflow {
namespace {

using namespace testing_support;

class AllocationHook : public testing::Test {
 protected:
  void SetUp() override {
#ifdef SF_NO_ALLOCATION_HOOK
    GTEST_SKIP() << "a sanitizer owns the allocation functions, or this is no glibc";
#endif
    watched = &allocation_scope;
    num_new = num_malloc = 0;
  }
  void TearDown() override {
    watched = nullptr;
  }
};

/// Tells the compiler that the bytes are used.
void keep(void* bytes) {
  asm volatile("" : : "r"(bytes) : "memory");
}

TEST_F(AllocationHook, StepsOfTrainingAndEvaluationAllocateNothing) {
  int num_convolutions = 0, num_norms = 0, num_dense = 0, num_noise = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    TrainableRandomModel t({.seed = seed, .min_layers = 5});
    SCOPED_TRACE(t.model.text);
    Session session(t.graph, {.device_memory = 8_MiB, .threads = 1 + static_cast<int>(seed % 3)});
    session.initialize();
    Trace trace;
    if (seed % 2 == 0) session.set_trace(&trace);
    for (std::uint64_t step = 0; step < 3; ++step) {
      const RandomBatch batch = random_batch(t.model, step == 2 ? 64 : 4, step);
      session.run(t.model.loss, batch.feeds(t.model), t.training);
      session.run(t.model.logits, batch.feeds(t.model, false));
    }
    ASSERT_EQ(num_new, 0);
    ASSERT_EQ(num_malloc, 0);
    num_convolutions += t.model.text.find("conv") != std::string::npos;
    num_norms += t.model.text.find("norm") != std::string::npos;
    num_dense += t.model.text.find("dense") != std::string::npos;
    num_noise += t.model.text.find("noise") != std::string::npos;
  }
  EXPECT_GT(std::min({num_convolutions, num_norms, num_dense, num_noise}), 3) << "the models cover what matters";
}

TEST_F(AllocationHook, StepsThatCarryTensorsToHostAndDiskAllocateNothing) {
  for (const bool copy_threads : {false, true}) {
    TrainableRandomModel t({.seed = 5, .min_layers = 5});
    Session session(t.graph, {.device_memory = 8_MiB, .disk = 8_MiB, .copy_threads = copy_threads, .threads = 1});
    engine(session).set_instruction_editor("random offloads", [](InstructionList list, PlanningTools& tools) {
      return offload_at_random(list, tools, 3, 0.7, true);
    });
    session.initialize();
    Trace trace;
    session.set_trace(&trace);
    for (std::uint64_t step = 0; step < 3; ++step) {
      const RandomBatch batch = random_batch(t.model, 4, step);
      session.run(t.model.loss, batch.feeds(t.model), t.training);
    }
    EXPECT_GT(session.statistics().planned_disk_peak_bytes, 0U);
    ASSERT_EQ(num_new, 0);
    ASSERT_EQ(num_malloc, 0);
  }
}

/// A session in which the kernel of a relu does something of its own.
struct Planted {
  explicit Planted(WrappedKernel::Hook hook) {
    session.initialize();
    Executable& program = whole_graph_program(session, {y}, {{x, data}});
    wrap_kernel(program, find_step(program.schedule, computes(graph, "relu")), std::move(hook));
    engine(session).execute(program, {{x, data}});
  }
  Graph graph;
  Value x = placeholder(graph, "x", {4});
  Value y = relu(x);
  HostTensor data{Dtype::f32, {4}};
  Session session{graph, {.device_memory = 1_MiB, .threads = 2}};
};

TEST_F(AllocationHook, SeesAPlantedNew) {
  Planted([](const KernelArguments&) { keep(std::make_unique<int>(3).get()); });
  EXPECT_EQ(num_new, 1);
}

TEST_F(AllocationHook, SeesAPlantedVectorWithAlignment) {
  struct alignas(128) Wide {
    char bytes[128];
  };
  Planted([](const KernelArguments&) { keep(std::vector<Wide>(3).data()); });
  EXPECT_EQ(num_new, 1);
}

TEST_F(AllocationHook, SeesPlantedCallsOfTheMallocFamily) {
  Planted([](const KernelArguments&) {
    void* bytes = std::malloc(10);
    keep(bytes);
    bytes = std::realloc(bytes, 1000);
    keep(bytes);
    std::free(bytes);
    bytes = std::calloc(3, 4);
    keep(bytes);
    std::free(bytes);
  });
  EXPECT_EQ(num_malloc, 3);
  EXPECT_EQ(num_new, 0);
}

TEST_F(AllocationHook, SeesAnAllocationOnAnotherThreadOfTheTeam) {
  Planted([](const KernelArguments&) {
#pragma omp parallel num_threads(2)
    keep(std::make_unique<int>(3).get());
  });
  EXPECT_EQ(num_new, 2);
}

TEST_F(AllocationHook, LeavesLibrariesAlone) {
  Planted([](const KernelArguments&) {
    const LibraryScope scope;
    keep(std::make_unique<int>(3).get());
  });
  EXPECT_EQ(num_new, 0);
}

TEST_F(AllocationHook, TiersAndLanesAllocateNothing) {
  const TemporaryFolder folder;
  DiskStore store({.folder = folder.path().string(), .num_bytes = 4_MiB, .num_blocks = 2});
  HostPool pool(4_MiB);
  Throttle throttle(1e10);
  LaneTeam team(2);
  LaneProgress progress(2);
  const auto body = [&](int lane) {
    const std::span<std::byte> bytes(pool.data() + static_cast<std::size_t>(lane) * 2_MiB, 1_MiB);
    if (lane == 0) {
      copy_throttled(throttle, bytes.data(), pool.data() + 1_MiB, bytes.size());
      store.write(0, 256, bytes, {.tensor = 1, .cycle = 2});
    } else if (progress.wait_until(0, 1)) {
      store.read(0, 256, bytes, {.tensor = 1, .cycle = 2});
    }
    progress.complete(lane);
  };
  for (int i = 0; i < 3; ++i) {
    const StepScope scope;  // as of the thread that executes steps: then the allocations of all threads count
    progress.reset();
    team.start(body);
    team.join();
  }
  EXPECT_EQ(num_new, 0);
  EXPECT_EQ(num_malloc, 0);
}

}  // namespace
}  // namespace sectionflow

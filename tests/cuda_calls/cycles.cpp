// What a training cycle has CUDA do: no allocation, no wait but the one at its end and those for the disk, no pageable
// copy. Where there is no GPU the same cycles run on an emulated one, which shows that they are what their names say.
//
// Of the libraries the same is asked as of us. Queries, attributes of kernels, events that are recorded and asked for,
// and launches are theirs to do; code that a library loads late would be memory that it takes, and a wait: it must have
// come with the warm-up.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "base/bytes.h"
#include "compare/contender.h"
#include "device/device_queues.h"
#include "runtime/engine.h"
#include "runtime/queue_program.h"
#include "tests/cuda_calls/cupti_hook.h"
#include "tests/support/emulated_device.h"
#include "tests/support/random_offloads.h"
#include "tests/support/test_device.h"
#include "tests/support/tiny_model.h"
#if defined(SF_HAS_CUPTI)
#include <cuda_runtime_api.h>
#endif

namespace sectionflow {
namespace {

using namespace testing_support;
using testing::Contains;
using testing::HasSubstr;

/// Before the first test: a program without CUPTI has nothing to do on a GPU.
class NeedsCupti : public testing::Environment {
 public:
  void SetUp() override {
    if (!tests_run_on_a_gpu() || has_cupti()) return;
    std::printf("skipped: built without CUPTI; name its folder in -DCUPTI_ROOT\n");
    std::fflush(stdout);
    std::_Exit(kSkippedStatus);
  }
};
[[maybe_unused]] const testing::Environment* const kNeedsCupti = testing::AddGlobalTestEnvironment(new NeedsCupti);

/// The one hook of this process. It never ends: the libraries may call CUDA until the very last.
CuptiHook& hook() {
  static auto* const hook = new CuptiHook;
  return *hook;
}

struct Way {
  const char* name;
  int sections = 0;  ///< 0: the whole graph by Session::run
  bool records = false;
  bool offloads = false;
  bool disk = false;
};

constexpr Way kWays[] = {
    {.name = "Whole"},
    {.name = "WholeRecorded", .records = true},
    {.name = "Sections", .sections = 3},
    {.name = "SectionsRecorded", .sections = 3, .records = true},
    {.name = "Offloads", .offloads = true},
    {.name = "OffloadsRecorded", .records = true, .offloads = true},
    {.name = "SectionsWithOffloadsRecorded", .sections = 3, .records = true, .offloads = true},
    {.name = "Disk", .offloads = true, .disk = true},
};
void PrintTo(const Way& way, std::ostream* out) {
  *out << way.name;
}

class CudaCalls : public testing::TestWithParam<Way> {
 protected:
  CudaCalls() {
    if (tests_run_on_a_gpu()) {
      (void)hook();
    } else {
      emulated_.emplace(EmulatedOptions{.kernels = EmulatedKernels::cpu});
    }
  }

  static Contender training(const Way& way) {
    Strategy strategy = tiny_strategy(way.name, way.sections);
    if (way.offloads) {
      strategy.edit_session = [disk = way.disk](Session& session) {
        engine(session).set_instruction_editor("random offloads", [disk](InstructionList list, PlanningTools& tools) {
          return offload_at_random(list, tools, 3, 0.8, disk);
        });
      };
    }
    SessionOptions options{.device = cuda(), .device_memory = 8_MiB, .disk = way.disk ? 8_MiB : 0};
    options.record_cycles = way.records;
    return {strategy, options, 6};
  }

 private:
  std::optional<EmulatedCuda> emulated_;
};

TEST_P(CudaCalls, OfACycleAreLaunchesAndTheWaitAtItsEnd) {
  const Way& way = GetParam();
  constexpr int kWarmUp = 3, kCycles = 4;  // the second cycle records
  Contender contender = training(way);
  contender.session().initialize();
  std::vector<Batch> batches;
  for (int step = 0; step < kWarmUp + kCycles; ++step) batches.push_back(tiny_batch(step));
  for (int step = 0; step < kWarmUp; ++step) (void)contender.step(batches[static_cast<std::size_t>(step)]);

  std::vector<CudaFinding> findings;
  if (tests_run_on_a_gpu()) hook().begin();
  for (int step = kWarmUp; step < kWarmUp + kCycles; ++step) {
    (void)contender.step(batches[static_cast<std::size_t>(step)]);
  }
  if (tests_run_on_a_gpu()) findings = hook().end();

  const Executable& program = *engine(contender.session()).latest_program();
  const auto num_steps = static_cast<StepIndex>(program.schedule.steps.size());
  EXPECT_EQ(program.queue->recording(0, num_steps) != nullptr, way.records);
  EXPECT_EQ(program.report.bytes_out > 0, way.offloads) << program.report.bytes_out;
  EXPECT_EQ(program.report.disk_bytes_out > 0, way.disk) << program.report.disk_bytes_out;
  if (!tests_run_on_a_gpu()) GTEST_SKIP() << "there is no GPU to be watched";

  const auto num_of = [&](CudaCallKind kind) {
    return std::count_if(findings.begin(), findings.end(), [&](const CudaFinding& finding) {
      return finding.kind == CudaFinding::Kind::call && finding.call == kind;
    });
  };
  // The one wait of a cycle is one for each queue.
  EXPECT_EQ(num_of(CudaCallKind::wait_for_stream), kCycles * kNumQueues) << to_text(findings);
  EXPECT_GE(hook().num_copies(), kCycles) << "the hook sees no copies of feeds";
  std::erase_if(findings, [&](const CudaFinding& finding) {
    const bool of_disk = way.disk && finding.call == CudaCallKind::wait_for_event;
    return finding.kind == CudaFinding::Kind::call && (finding.call == CudaCallKind::wait_for_stream || of_disk);
  });
  EXPECT_EQ(to_text(findings), "nothing");
}
INSTANTIATE_TEST_SUITE_P(Ways, CudaCalls, testing::ValuesIn(kWays), [](const auto& way) { return way.param.name; });

#if defined(SF_HAS_CUPTI)
/// What the hook says of `happens`, on a GPU that has nothing else to do.
template <class Happens>
std::vector<std::string> seen(Happens happens) {
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  hook().begin();
  happens();
  std::vector<std::string> texts;
  for (const CudaFinding& finding : hook().end()) texts.push_back(finding.text);
  return texts;
}

class CudaCallsPlanted : public testing::Test {
 protected:
  void SetUp() override {
    if (!tests_run_on_a_gpu()) GTEST_SKIP() << "there is no GPU to be watched";
    (void)hook();
    ASSERT_EQ(cudaMalloc(&device_, kBytes), cudaSuccess);
    ASSERT_EQ(cudaMallocHost(&pinned_, kBytes), cudaSuccess);
    ASSERT_EQ(cudaHostRegister(registered_.data(), kBytes, cudaHostRegisterPortable), cudaSuccess);
  }
  void TearDown() override {
    if (device_ == nullptr) return;
    (void)cudaHostUnregister(registered_.data());
    (void)cudaFreeHost(pinned_);
    (void)cudaFree(device_);
  }

  static constexpr std::size_t kBytes = std::size_t{1} << 20;
  void *device_ = nullptr, *pinned_ = nullptr;
  std::vector<std::byte> pageable_ = std::vector<std::byte>(kBytes), registered_ = std::vector<std::byte>(kBytes);
};

TEST_F(CudaCallsPlanted, AllocationsAndReleasesAreSeen) {
  const auto texts = seen([] {
    void *device = nullptr, *host = nullptr;
    EXPECT_EQ(cudaMalloc(&device, 1000), cudaSuccess);
    EXPECT_EQ(cudaMallocHost(&host, 1000), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(host), cudaSuccess);
    EXPECT_EQ(cudaFree(device), cudaSuccess);
  });
  for (const char* call : {"cudaMalloc", "cudaMallocHost", "cudaFreeHost", "cudaFree"}) {
    EXPECT_THAT(texts, Contains(call));
  }
}

TEST_F(CudaCallsPlanted, WaitsAreSeen) {
  EXPECT_THAT(seen([] { EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess); }), Contains("cudaDeviceSynchronize"));
  EXPECT_THAT(seen([] { EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess); }), Contains("cudaStreamSynchronize"));
}

TEST_F(CudaCallsPlanted, PageableCopiesAreSeenAndPinnedOnesAreNot) {
  const auto texts = seen([&] {
    EXPECT_EQ(cudaMemcpy(device_, pageable_.data(), kBytes, cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  });
  EXPECT_THAT(texts, Contains("cudaMemcpy"));
  EXPECT_THAT(texts, Contains(HasSubstr("from pageable to device memory")));
  for (void* host : {pinned_, static_cast<void*>(registered_.data())}) {
    EXPECT_THAT(seen([&] {
                  EXPECT_EQ(cudaMemcpyAsync(device_, host, kBytes, cudaMemcpyHostToDevice, nullptr), cudaSuccess);
                  EXPECT_EQ(cudaMemcpyAsync(host, device_, kBytes, cudaMemcpyDeviceToHost, nullptr), cudaSuccess);
                  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
                }),
                testing::ElementsAre("cudaStreamSynchronize"));
    EXPECT_EQ(hook().num_copies(), 2);
  }
}
#endif

}  // namespace
}  // namespace sectionflow

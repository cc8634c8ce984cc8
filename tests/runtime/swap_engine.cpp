#include "runtime/swap_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <limits>
#include <numeric>

#include "base/bytes.h"
#include "compare/compare_strategies.h"
#include "graph/ops/basic.h"
#include "runtime/engine.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_offloads.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Which calls of the disk fail, from when on.
struct Faults {
  std::atomic<bool> armed{false};
  // That still succeed once it is armed.
  std::atomic<int> reads_left{std::numeric_limits<int>::max()}, writes_left{std::numeric_limits<int>::max()};

  DiskCalls calls() {
    DiskCalls calls;
    calls.try_uring = false;
    calls.pwrite = [this](int file, const void* bytes, std::size_t count, off_t offset) -> ssize_t {
      if (armed && --writes_left < 0) {
        errno = ENOSPC;
        return -1;
      }
      return ::pwrite(file, bytes, count, offset);
    };
    calls.pread = [this](int file, void* bytes, std::size_t count, off_t offset) -> ssize_t {
      const ssize_t result = ::pread(file, bytes, count, offset);
      // Damaged rather than refused: one bit.
      if (armed && --reads_left < 0 && result > 0) *static_cast<unsigned char*>(bytes) ^= 1;
      return result;
    };
    return calls;
  }
};

/// Training of a random model whose idle tensors are offloaded to the disk.
struct Swapped {
  explicit Swapped(const SessionOptions& options, Faults* faults = nullptr) : session(t.graph, options) {
    engine(session).set_instruction_editor("random offloads", [](InstructionList list, PlanningTools& tools) {
      return offload_at_random(list, tools, 3, 0.8, true);
    });
    if (faults != nullptr) engine(session).set_disk_calls(faults->calls());
    session.initialize();
  }
  HostTensor step(std::uint64_t number, std::int64_t batch_size = 4) {
    const RandomBatch batch = random_batch(t.model, batch_size, number);
    return session.run(t.model.loss, batch.feeds(t.model), t.training);
  }
  TrainingState state() { return {read_variables(session), {}}; }

  // Without batch norm, whose averages change in the forward pass.
  TrainableRandomModel t{{.seed = 5, .min_layers = 5, .batch_norm = false}};
  Session session;
};

SessionOptions with_disk(bool copy_threads) {
  return {.device_memory = 8_MiB, .disk = 8_MiB, .copy_threads = copy_threads, .threads = 1};
}

class FailingDisk : public testing::TestWithParam<bool> {};

TEST_P(FailingDisk, AFullDiskInTheForwardPassChangesNothingAndTheNextStepIsWhole) {
  Faults faults;
  Swapped broken(with_disk(GetParam()), &faults), sound(with_disk(GetParam()));
  broken.step(0);
  sound.step(0);
  const TrainingState before = broken.state();
  faults.writes_left = 0;
  faults.armed = true;
  EXPECT_THAT([&] { broken.step(1); },
              ThrowsMessage<DeviceError>(AllOf(HasSubstr("tensor '"), HasSubstr("No space left"))));
  faults.armed = false;
  EXPECT_EQ(first_difference(before, broken.state()), "");
  EXPECT_EQ(broken.session.completed_cycles(), 1U);
  broken.step(1);
  sound.step(1);
  EXPECT_EQ(first_difference(sound.state(), broken.state()), "");
}

TEST_P(FailingDisk, ADamagedBlockIsFoundBeforeItIsUsed) {
  // Wherever in the cycle it is read.
  int torn = 0, whole = 0;
  for (int reads = 0; reads < 40; ++reads) {
    Faults faults;
    Swapped broken(with_disk(GetParam()), &faults);
    broken.step(0);
    const TrainingState before = broken.state();
    faults.reads_left = reads;
    faults.armed = true;
    try {
      broken.step(1);
      break;  // there are no more reads than that
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("SF-E401"), HasSubstr("tensor '")));
    }
    faults.armed = false;
    EXPECT_EQ(broken.session.completed_cycles(), 1U);
    try {
      broken.step(1);
      ++whole;
    } catch (const ArgumentError& error) {
      EXPECT_THAT(error.what(), HasSubstr("half updated")) << "after the first update";
      ++torn;
      continue;
    }
    Swapped sound(with_disk(GetParam()));
    sound.step(0);
    EXPECT_EQ(first_difference(before, sound.state()), "");
    sound.step(1);
    EXPECT_EQ(first_difference(sound.state(), broken.state()), "");
  }
  EXPECT_GT(whole, 0);
  EXPECT_GT(torn, 0);
}
INSTANTIATE_TEST_SUITE_P(Carriers, FailingDisk, testing::Bool(),
                         [](const auto& info) { return info.param ? "Threads" : "Team"; });

TEST(SwapEngine, ATierThatIsTooSmallIsNamedBeforeAnythingRuns) {
  Swapped enough(with_disk(false));
  enough.session.set_measuring(true);
  enough.step(0);
  const Statistics needed = enough.session.statistics();
  ASSERT_EQ(needed.measured_host_peak_bytes, needed.planned_host_peak_bytes);
  ASSERT_EQ(needed.measured_disk_peak_bytes, needed.planned_disk_peak_bytes);

  SessionOptions options = with_disk(false);
  options.host_memory = needed.planned_host_peak_bytes;
  options.disk = needed.planned_disk_peak_bytes;
  Swapped exact(options);
  EXPECT_NO_THROW(exact.step(0));

  options.host_memory = needed.planned_host_peak_bytes - 1;
  Swapped host(options);
  EXPECT_THAT([&] { host.step(0); },
              ThrowsMessage<BudgetError>(AllOf(HasSubstr("of host memory, host_memory is"),
                                               HasSubstr(text_of("host_memory of ", needed.planned_host_peak_bytes)))));
  options.host_memory = 0;
  options.disk = needed.planned_disk_peak_bytes - 1;
  Swapped disk(options);
  EXPECT_THAT([&] { disk.step(0); }, ThrowsMessage<BudgetError>(HasSubstr("of disk, disk is")));
}

TEST(SwapEngine, TheDiskCarriesTensorsFromAndToWhereTheyLieInHostMemory) {
  // Every whole page past the page cache: places in the pool and in the file begin at pages.
  bool is_direct_open = false;
  std::atomic<std::size_t> num_direct{0}, num_pages_cached{0};
  DiskCalls calls;
  calls.try_uring = false;
  calls.open = [&](const char* path, int flags, mode_t mode) {
    const int descriptor = open_file(path, flags, mode);
    is_direct_open |= descriptor >= 0 && (flags & O_DIRECT) != 0;
    return descriptor;
  };
  const auto note = [&](int descriptor, std::size_t num_bytes) {
    const bool direct = (fcntl(descriptor, F_GETFL) & O_DIRECT) != 0;
    (direct ? num_direct : num_pages_cached) += num_bytes / kPageBytes;
  };
  calls.pwrite = [&](int descriptor, const void* bytes, std::size_t count, off_t offset) {
    note(descriptor, count);
    return ::pwrite(descriptor, bytes, count, offset);
  };
  calls.pread = [&](int descriptor, void* bytes, std::size_t count, off_t offset) {
    note(descriptor, count);
    return ::pread(descriptor, bytes, count, offset);
  };
  for (const bool swap_variables : {false, true}) {
    SessionOptions options = with_disk(false);
    options.device_memory = options.disk = 64_MiB;
    options.swap_variables = swap_variables;
    Swapped swapped(options);
    engine(swapped.session).set_disk_calls(calls);
    swapped.step(0, 600);
    const RandomBatch batch = random_batch(swapped.t.model, 600, 0);
    const ProgramReport report =
        swapped.session.plan({swapped.t.model.loss}, batch.types(swapped.t.model), swapped.t.training);
    EXPECT_GT(report.disk_bytes_out, 20 * kPageBytes);
    if (!is_direct_open) GTEST_SKIP() << "the file system of temporary files has no direct access";
    EXPECT_EQ(num_pages_cached, 0U);
    EXPECT_GT(num_direct, report.disk_bytes_out / kPageBytes);
  }
}

TEST(SwapEngine, VariablesWhoseHomeTierIsTheHostTakeDeviceMemoryOnlyWhileTheyAreUsed) {
  Swapped resident({.device_memory = 8_MiB, .disk = 8_MiB, .threads = 1});
  Swapped swapped({.device_memory = 8_MiB, .disk = 8_MiB, .swap_variables = true, .threads = 1});
  const RandomBatch batch = random_batch(swapped.t.model, 4, 0);
  const auto plan = [&](Swapped& s) { return s.session.plan({s.t.model.loss}, batch.types(s.t.model), s.t.training); };
  const ProgramReport usual = plan(resident), report = plan(swapped);
  EXPECT_GT(usual.persistent_bytes, 0U);
  EXPECT_EQ(report.persistent_bytes, 0U);
  EXPECT_EQ(report.host_persistent_bytes, usual.persistent_bytes);
  EXPECT_LT(report.planned_peak_bytes, usual.planned_peak_bytes);

  SessionOptions tight{.device_memory = report.planned_peak_bytes,
                       .host_memory = report.host_peak_bytes,
                       .disk = report.disk_peak_bytes,
                       .swap_variables = true,
                       .threads = 1};
  Swapped trained(tight);
  trained.session.set_measuring(true);
  for (std::uint64_t step = 0; step < 3; ++step) {
    trained.step(step);
    resident.step(step);
    EXPECT_EQ(trained.session.statistics().measured_peak_bytes, report.planned_peak_bytes);
    EXPECT_EQ(trained.session.statistics().measured_host_peak_bytes, report.host_peak_bytes);
  }
  EXPECT_EQ(first_difference(resident.state(), trained.state()), "");
  --tight.host_memory;
  EXPECT_THAT([&] { Swapped(tight).step(0); }, ThrowsMessage<BudgetError>(HasSubstr("host_memory")));
}

TEST(SwapEngine, AVariableIsReadAndWrittenInItsHomeTier) {
  Graph graph;
  const Value w = variable("w", fill(graph, {3}, 0.0F));
  Session session(graph, {.device_memory = 1_MiB, .swap_variables = true, .threads = 1});
  session.initialize();
  HostTensor numbers(Dtype::f32, {3});
  std::iota(numbers.values<float>().begin(), numbers.values<float>().end(), 1.0F);
  session.write(w, numbers);
  EXPECT_TRUE(bitwise_equal(session.read(w), numbers));
  EXPECT_TRUE(bitwise_equal(session.run(w), numbers));
}

TEST(SwapEngine, AFolderThatIsNoneIsRefusedBeforeAnythingRuns) {
  SessionOptions options = with_disk(false);
  options.swap_directory = "/nowhere/at/all";
  Swapped swapped(options);
  const TrainingState before = swapped.state();
  const RandomBatch batch = random_batch(swapped.t.model, 4, 0);
  const auto plan = [&] {
    (void)swapped.session.plan({swapped.t.model.loss}, batch.types(swapped.t.model), swapped.t.training);
  };
  EXPECT_THAT(plan, ThrowsMessage<Error>(HasSubstr("/nowhere/at/all")));
  EXPECT_THAT([&] { swapped.step(0); }, ThrowsMessage<Error>(HasSubstr("/nowhere/at/all")));
  EXPECT_EQ(first_difference(before, swapped.state()), "");
}

TEST(SwapEngine, ABandwidthThatIsNoneIsRefused) {
  Graph graph;
  EXPECT_THROW(Session(graph, {.device_memory = 1_MiB, .link_bandwidth = -1.0}), ArgumentError);
}

}  // namespace
}  // namespace sectionflow

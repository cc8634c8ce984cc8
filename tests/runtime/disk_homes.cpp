// Variables whose home tier is the disk, since host memory has no room for them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <limits>
#include <utility>

#include "runtime/swap_file.h"
#include "tests/support/home_case.h"
#include "tests/support/home_faults.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class DiskHomes : public testing::TestWithParam<bool> {};  // whether threads copy
INSTANTIATE_TEST_SUITE_P(Carriers, DiskHomes, testing::Bool(),
                         [](const auto& info) { return info.param ? "Threads" : "Team"; });

std::vector<Optimizer> optimizers() {
  return {Sgd{.learning_rate = 0.1}, Momentum{.learning_rate = 0.1}, Adam{.learning_rate = 0.01}};
}

TEST_P(DiskHomes, TakeTheLeastHostMemoryToTheByteAndChangeNoBit) {
  for (const Optimizer& optimizer : optimizers()) {
    HomeCase resident(optimizer, {.device_memory = kMuch});
    SessionOptions tight = least_host_memory(optimizer, much_memory(GetParam()));
    HomeCase planned(optimizer, tight);
    const ProgramReport report = planned.plan();
    ASSERT_TRUE(report.fits);
    EXPECT_GT(report.disk_persistent_bytes, 0U);
    EXPECT_LT(report.host_peak_bytes, report.host_persistent_bytes + report.disk_persistent_bytes);
    EXPECT_GT(report.disk_bytes_out, 0U);
    EXPECT_THAT(report.text(), HasSubstr(" in host memory, "));
    planned.session->initialize();
    tight.disk = std::max(report.disk_peak_bytes, planned.bytes_on_disk());
    HomeCase trained(optimizer, tight);
    trained.session->initialize();
    resident.session->initialize();
    trained.session->set_measuring(true);
    for (int step = 0; step < 3; ++step) {
      EXPECT_TRUE(bitwise_equal(trained.step(step), resident.step(step)));
      const Statistics& statistics = trained.session->statistics();
      EXPECT_EQ(statistics.measured_peak_bytes, report.planned_peak_bytes);
      EXPECT_EQ(statistics.measured_host_peak_bytes, report.host_peak_bytes);
      EXPECT_EQ(statistics.measured_disk_peak_bytes, report.disk_peak_bytes);
      EXPECT_EQ(statistics.planned_disk_peak_bytes, report.disk_peak_bytes);
    }
    EXPECT_EQ(first_difference(resident.state(), trained.state()), "");
    EXPECT_EQ(trained.bytes_on_disk(), report.disk_persistent_bytes);
  }
}

TEST_P(DiskHomes, AByteLessOfAnyTierIsRefused) {
  const Adam adam;
  const SessionOptions tight = least_host_memory(adam, much_memory(GetParam()));
  HomeCase planned(adam, tight);
  const ProgramReport report = planned.plan();
  const auto is_refused = [&](SessionOptions options) {
    HomeCase trained(adam, options);
    EXPECT_THROW(
        {
          trained.session->initialize();
          trained.step(0);
        },
        BudgetError);
  };
  SessionOptions less = tight;
  --less.host_memory;
  is_refused(less);
  less = tight;
  less.disk = report.disk_peak_bytes - 1;
  is_refused(less);
  less = tight;
  less.device_memory = report.planned_peak_bytes - 1;
  is_refused(less);
}

TEST_P(DiskHomes, ThereAreNoneWhereHostMemoryHoldsAll) {
  HomeCase with(Adam{}, much_memory(GetParam()));
  SessionOptions without_disk = much_memory(GetParam());
  without_disk.disk = 0;
  HomeCase without(Adam{}, without_disk);
  const ProgramReport report = with.plan(), usual = without.plan();
  EXPECT_EQ(report.disk_persistent_bytes, 0U);
  EXPECT_EQ(report.host_peak_bytes, usual.host_peak_bytes);
  EXPECT_EQ(report.host_persistent_bytes, usual.host_persistent_bytes);
  EXPECT_EQ(report.planned_peak_bytes, usual.planned_peak_bytes);
  EXPECT_EQ(report.disk_bytes_in, 0U);
}

TEST_P(DiskHomes, MoreHostMemoryFitsWhateverLessDoes) {
  const Adam adam;
  const std::size_t least = least_host_memory(adam, much_memory(GetParam())).host_memory;
  std::size_t on_disk = std::numeric_limits<std::size_t>::max();
  for (std::size_t host = least; host < 4 * least; host += least / 16) {
    SessionOptions options = much_memory(GetParam());
    options.host_memory = host;
    const ProgramReport report = HomeCase(adam, options).plan();
    EXPECT_TRUE(report.fits) << host;
    EXPECT_LE(report.disk_persistent_bytes, on_disk) << host;
    on_disk = report.disk_persistent_bytes;
  }
  EXPECT_EQ(on_disk, 0U);
}

TEST_P(DiskHomes, FollowTheProgramThatHasNoRoomBesideThem) {
  // The initial values fit with less on disk than a step.
  const Adam adam;
  SessionOptions options = much_memory(GetParam());
  options.host_memory = least_host_memory(adam, options).host_memory + 3 * kPageBytes;
  HomeCase moved(adam, options), resident(adam, {.device_memory = kMuch});
  resident.session->initialize();
  moved.session->initialize();
  const std::size_t before = moved.bytes_on_disk();
  EXPECT_EQ(first_difference(resident.state(), moved.state()), "");
  for (int step = 0; step < 2; ++step) EXPECT_TRUE(bitwise_equal(moved.step(step), resident.step(step)));
  EXPECT_GE(moved.bytes_on_disk(), before);
  const std::size_t trained = moved.bytes_on_disk();
  const auto logits = [](HomeCase& of) { return std::move(of.session->run({of.logits}, {of.feeds(7)[0]})[0]); };
  EXPECT_TRUE(bitwise_equal(logits(moved), logits(resident)));
  EXPECT_EQ(moved.bytes_on_disk(), trained) << "what fits beside them leaves them where they are";
  EXPECT_EQ(first_difference(resident.state(), moved.state()), "");
}

TEST_P(DiskHomes, AreReadAndWrittenFromOutside) {
  HomeCase tried(Adam{}, least_host_memory(Adam{}, much_memory(GetParam())));
  tried.session->initialize();
  tried.step(0);
  ASSERT_GT(tried.bytes_on_disk(), 0U);
  for (Value variable : tried.graph.values(kVariables)) {
    HostTensor tensor = tried.session->read(variable);
    if (variable.dtype() == Dtype::f32) {
      for (float& number : tensor.values<float>()) number = 0.5F * number + 0.25F;
    }
    tried.session->write(variable, tensor);
    EXPECT_TRUE(bitwise_equal(tried.session->read(variable), tensor)) << variable.name();
    EXPECT_TRUE(bitwise_equal(tried.session->run(variable), tensor)) << variable.name();
  }
}

TEST_P(DiskHomes, AreGivenTheirInitialValuesAgain) {
  HomeCase tried(Adam{}, least_host_memory(Adam{}, much_memory(GetParam())));
  tried.session->initialize();
  const TrainingState initial = tried.state();
  tried.step(0);
  EXPECT_NE(first_difference(initial, tried.state()), "");
  tried.session->initialize();
  EXPECT_EQ(first_difference(initial, tried.state()), "");
}

struct FaultyHomes : HomeCase {
  explicit FaultyHomes(bool copy_threads) : HomeCase(Adam{}, least_host_memory(Adam{}, much_memory(copy_threads))) {
    engine(*session).set_disk_calls(faults.calls());
    session->initialize();
    step(0);
  }
  /// Not the calls of the case before it: those have the sessions that use them outlive them.
  ~FaultyHomes() { session.reset(); }
  HomeFaults faults;
};

TEST_P(DiskHomes, AWriteThatFailsTearsTheSessionUntilItIsInitialized) {
  FaultyHomes tried(GetParam());
  tried.faults.writes_left = 2;
  EXPECT_THAT([&] { tried.step(1); },
              ThrowsMessage<DeviceError>(AllOf(HasSubstr("SF-E"), HasSubstr("writing variable '"))));
  tried.faults.writes_left = std::numeric_limits<int>::max();
  EXPECT_THAT([&] { tried.step(1); }, ThrowsMessage<ArgumentError>(HasSubstr("half updated")));
  tried.session->initialize();
  HomeCase sound(Adam{}, {.device_memory = kMuch});
  sound.session->initialize();
  EXPECT_TRUE(bitwise_equal(tried.step(0), sound.step(0)));
  EXPECT_EQ(first_difference(sound.state(), tried.state()), "");
}

TEST_P(DiskHomes, ADamagedOneIsFoundBeforeItIsUsed) {
  int torn = 0, whole = 0;
  for (int reads = 0; reads < 60; reads += 3) {
    FaultyHomes tried(GetParam());
    const TrainingState before = tried.state();
    tried.faults.reads_left = reads;
    try {
      tried.step(1);
      break;  // there are no more reads than that
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("SF-E401"), HasSubstr("variable '"), HasSubstr("is damaged")));
    }
    tried.faults.reads_left = std::numeric_limits<int>::max();
    EXPECT_EQ(tried.session->completed_cycles(), 1U);
    try {
      EXPECT_EQ(first_difference(before, tried.state()), "");
      ++whole;
    } catch (const ArgumentError& error) {
      EXPECT_THAT(error.what(), HasSubstr("half updated"));
      ++torn;
    }
  }
  EXPECT_GT(whole, 0);
  EXPECT_GT(torn, 0);
}

TEST_P(DiskHomes, OneThatCouldNotBeWrittenIsRefusedUntilItIs) {
  FaultyHomes tried(GetParam());
  Value on_disk;
  for (Value variable : tried.graph.values(kVariables)) {
    if (engine(*tried.session).layout().has_disk_home(variable.node().id())) on_disk = variable;
  }
  const HostTensor tensor = tried.session->read(on_disk);
  tried.faults.writes_left = 0;
  EXPECT_THROW(tried.session->write(on_disk, tensor), DeviceError);
  tried.faults.writes_left = std::numeric_limits<int>::max();
  EXPECT_THAT([&] { (void)tried.session->read(on_disk); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("SF-E401"), HasSubstr("could not be written"))));
  EXPECT_THROW(tried.step(1), DataError);
  tried.session->write(on_disk, tensor);
  EXPECT_TRUE(bitwise_equal(tried.session->read(on_disk), tensor));
  EXPECT_NO_THROW(tried.step(1));
}

TEST(DiskHomesOf, SessionsThatPoisonAndDelayGiveTheSameBits) {
  HomeCase resident(Adam{}, {.device_memory = kMuch});
  resident.session->initialize();
  resident.step(0);
  for (const bool poison : {true, false}) {
    SessionOptions options = least_host_memory(Adam{}, much_memory(true));
    options.poison = poison;
    options.random_delays = poison ? 0 : 3;
    HomeCase tried(Adam{}, options);
    tried.session->initialize();
    tried.step(0);
    EXPECT_EQ(first_difference(resident.state(), tried.state()), "");
  }
}

}  // namespace
}  // namespace sectionflow

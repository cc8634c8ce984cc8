// Programs that are planned again beside variables whose home tier is the disk, where several layouts are compared.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fit/drift_watch.h"
#include "fit/program_fitter.h"
#include "tests/support/home_case.h"
#include "tests/support/log_lines.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr int kBegun = DriftWatch::kNotCounted + DriftWatch::kFirst;
constexpr int kTimed = kBegun + ProgramFitter::kStepsInARow + 1;

/// A training some of whose variables lie on disk, and whose copies come to take longer than its steps did.
struct DriftingHomes {
  explicit DriftingHomes(const std::function<bool()>& stop) {
    SessionOptions options = least_host_memory(Momentum{}, much_memory());
    options.host_memory += options.host_memory / 3;
    options.device_memory = HomeCase(Momentum{}, options).plan().planned_peak_bytes * 49 / 50;
    tried = std::make_unique<HomeCase>(Momentum{}, options);
    resident.session->initialize();
    fit_budget(*tried->session, {.profile = quick_link(), .stop = stop, .replan = Replan::on_drift});
    engine(*tried->session).set_times_editor([this](const Program& program, ExecutionTimes& times) {
      times.seconds = seconds;
      for (std::size_t i = 0; i < times.steps.size(); ++i)
        times.steps[i] = is_transfer(program.schedule.steps[i].kind) ? 1 : 1e-4;
    });
    tried->session->initialize();
  }
  static Profile quick_link() {
    return {
        .flops = 1e9, .memory_bandwidth = 1e8, .link_out = 1e12, .link_in = 1e12, .disk_out = 1e12, .disk_in = 1e12};
  }
  void step() {
    ASSERT_TRUE(bitwise_equal(tried->step(done), resident.step(done))) << done;
    ++done;
  }
  std::int64_t replanned() { return tried->session->statistics().programs_replanned; }

  HomeCase resident{Momentum{}, {.device_memory = kMuch}};
  std::unique_ptr<HomeCase> tried;
  double seconds = 1;
  std::int64_t done = 0;
};

TEST(ReplanBesideDiskHomes, ThatIsStoppedAnywhereKeepsThePlanAndIsMadeLater) {
  std::int64_t left = -1;  // questions until planning is stopped
  DriftingHomes training([&] { return left >= 0 && left-- == 0; });
  for (int i = 0; i < kTimed; ++i) {
    training.seconds = i < kBegun ? 1 : 1.2;
    training.step();
  }
  LogLines log;
  int stopped = 0;
  for (std::int64_t questions = 0; training.replanned() == 0; questions += 1 + questions / 8) {
    left = questions;
    training.step();
    ASSERT_FALSE(HasFatalFailure());
    if (left >= 0) break;
    ++stopped;
  }
  EXPECT_GT(stopped, 1);
  EXPECT_EQ(training.replanned(), 1);
  EXPECT_THAT(log.lines, Contains(HasSubstr("since planning was stopped")));
  EXPECT_THAT(log.lines, Contains(HasSubstr("; 1 of at most 6"))) << "those that were stopped do not count";
  EXPECT_THAT(training.tried->plan().notes, Contains(HasSubstr("fit_budget: planned again after")));
  training.step();
}

}  // namespace
}  // namespace sectionflow

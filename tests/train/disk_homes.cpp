// Checkpoints of variables whose home tier is the disk.

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/home_case.h"
#include "tests/support/home_faults.h"
#include "tests/support/temporary_folder.h"
#include "train/averaged_weights.h"
#include "train/checkpoint.h"

namespace sectionflow {
namespace {

using namespace testing_support;

TEST(CheckpointsOfDiskHomes, GoToOtherHomesAndBack) {
  const TemporaryFolder folder;
  const Adam adam;
  HomeCase resident(adam, {.device_memory = kMuch}), tried(adam, least_host_memory(adam, much_memory()));
  for (HomeCase* each : {&resident, &tried}) each->session->initialize();
  for (int step = 0; step < 2; ++step) {
    resident.step(step);
    tried.step(step);
  }
  ASSERT_GT(tried.bytes_on_disk(), 0U);
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  save_variables(*tried.session, path("tried.safetensors"));
  HomeCase on_device(adam, {.device_memory = kMuch}), on_disk(adam, least_host_memory(adam, much_memory(true)));
  for (HomeCase* each : {&on_device, &on_disk}) each->session->initialize();
  load_variables(*on_device.session, path("tried.safetensors"));
  EXPECT_EQ(first_difference(resident.state(), on_device.state()), "");
  on_device.step(2);
  save_variables(*on_device.session, path("device.safetensors"));
  load_variables(*on_disk.session, path("device.safetensors"));
  resident.step(2);
  EXPECT_EQ(first_difference(resident.state(), on_disk.state()), "");
  EXPECT_TRUE(bitwise_equal(on_disk.step(3), resident.step(3)));
  EXPECT_EQ(first_difference(resident.state(), on_disk.state()), "");
}

TEST(AveragedWeightsOnDisk, ComeBackWhereOneOfThemCannotBeWritten) {
  HomeFaults faults;
  HomeCase tried(Momentum{}, least_host_memory(Momentum{}, much_memory()));
  engine(*tried.session).set_disk_calls(faults.calls());
  tried.session->initialize();
  tried.step(0);
  // Two of the same size on the disk: what is exchanged need not be an average.
  std::vector<Value> on_disk;
  for (Value variable : tried.graph.values(kVariables)) {
    const bool is_there = engine(*tried.session).layout().has_disk_home(variable.node().id());
    if (is_there && (on_disk.empty() || variable.type() == on_disk.front().type())) on_disk.push_back(variable);
  }
  ASSERT_GE(on_disk.size(), 2U);
  const TrainingState before = tried.state();
  for (const int sound : {0, 1}) {
    faults.failing_writes = 1;
    faults.writes_left = sound;
    EXPECT_THROW(AveragedWeights(*tried.session, {{on_disk[0], on_disk[1]}}), DeviceError);
    EXPECT_LT(faults.failing_writes, 1) << "nothing has failed";
    EXPECT_EQ(first_difference(before, tried.state()), "");
  }
  EXPECT_NO_THROW(tried.step(1));
  tried.session.reset();
}

}  // namespace
}  // namespace sectionflow

// Checkpoints of variables whose home tier is the disk.

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/home_case.h"
#include "tests/support/temporary_folder.h"
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

}  // namespace
}  // namespace sectionflow

#include "tests/support/test_device.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "device/cuda_module.h"
#include "tests/support/emulated_device.h"

namespace sectionflow::testing_support {
namespace {

DeviceSpec emulated(EmulatedKernels kernels) {
  const char* seed = std::getenv("SECTIONFLOW_TEST_SEED");
  // For the rest of the process.
  static const EmulatedCuda device(
      {.kernels = kernels, .seed = seed != nullptr ? std::strtoull(seed, nullptr, 10) : 1});
  return cuda();
}

std::string named_device() {
  const char* named = std::getenv("SECTIONFLOW_TEST_DEVICE");
  return named != nullptr ? named : "cpu";
}

/// Ends a program that is to test on a GPU where there is none: one line, and the status that means "skipped" to CTest.
class NeedsItsDevice : public testing::Environment {
 public:
  void SetUp() override {
    if (named_device() != "cuda") return;
    try {
      (void)cuda_module();
    } catch (const DeviceError& error) {
      const std::string text = error.what();
      std::printf("skipped: %s\n", text.substr(0, text.find('\n')).c_str());
      std::fflush(stdout);
      std::_Exit(kSkippedStatus);
    }
  }
};
[[maybe_unused]] const testing::Environment* const kNeedsItsDevice =
    testing::AddGlobalTestEnvironment(new NeedsItsDevice);

}  // namespace

DeviceSpec test_device() {
  const std::string name = named_device();
  if (name == "cpu") return cpu();
  if (name == "emulated") return emulated(EmulatedKernels::cuda);
  if (name == "queues") return emulated(EmulatedKernels::cpu);
  SF_CHECK(name == "cuda", ArgumentError, "SECTIONFLOW_TEST_DEVICE is '", name,
           "'; wanted cpu, emulated, queues or cuda");
  return cuda();
}

bool tests_run_on_a_gpu() {
  return named_device() == "cuda";
}

bool tests_run_on_cpu() {
  return test_device().kind == DeviceKind::cpu;
}

}  // namespace sectionflow::testing_support

#include "tests/support/test_device.h"

#include <cstdlib>
#include <string>

#include "base/error.h"
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

}  // namespace

DeviceSpec test_device() {
  const char* named = std::getenv("SECTIONFLOW_TEST_DEVICE");
  const std::string name = named != nullptr ? named : "cpu";
  if (name == "cpu") return cpu();
  if (name == "emulated") return emulated(EmulatedKernels::cuda);
  if (name == "queues") return emulated(EmulatedKernels::cpu);
  SF_CHECK(name == "cuda", ArgumentError, "SECTIONFLOW_TEST_DEVICE is '", name,
           "'; wanted cpu, emulated, queues or cuda");
  return cuda();
}

bool tests_run_on_cpu() {
  return test_device().kind == DeviceKind::cpu;
}

}  // namespace sectionflow::testing_support

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "op_case/op_case.h"

namespace sectionflow::op_cases {

/// Where kernels of a case are executed.
struct CaseDevice {
  /// Makes the device for one execution. Executions that differ in what must not matter differ in `order`, by which an
  /// emulator may order threads that nothing else orders.
  std::function<std::shared_ptr<Device>(int threads, std::uint64_t order)> make;
  /// The teams that a case runs with, one after the other.
  std::vector<int> team_sizes = {2, 1};
  /// Whether libraries may compute sums of bf16 products in another way than those of f32.
  bool has_library_bf16 = false;
};

/// The device of `spec`; a GPU is opened once a process.
CaseDevice case_device(const DeviceSpec& spec);

/// failures_of (op_case/op_case.h) on a device that is made in another way.
std::vector<std::string> failures_on(const OpCase& op_case, const CaseDevice& device);

}  // namespace sectionflow::op_cases

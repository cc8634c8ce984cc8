#pragma once

#include <string>
#include <vector>

#include "op_case/kernel_runner.h"
#include "tests/support/test_device.h"

namespace sectionflow::testing_support {

using op_cases::Feeds;
using op_cases::InPlaceUse;
using op_cases::RunOptions;
using op_cases::RunResult;

/// The test device, for cases.
op_cases::CaseDevice test_case_device();

/// Computes `fetches`, then executes `operations`, on the test device: see op_case/kernel_runner.h.
inline RunResult run_kernels(const std::vector<Value>& fetches, const std::vector<Operation>& operations,
                             const Feeds& feeds, const RunOptions& options = {}) {
  return op_cases::run_kernels(test_case_device(), fetches, operations, feeds, options);
}
/// The same for values alone.
inline std::vector<HostTensor> run_kernels(const std::vector<Value>& fetches, const Feeds& feeds,
                                           const RunOptions& options = {}) {
  return run_kernels(fetches, {}, feeds, options).fetched;
}

/// Kernel::implementation() of the node that computes `value`, on the test device. All shapes must be known; booleans
/// come from constants.
std::string implementation_of(Value value, int threads = 2);

/// Median milliseconds of one launch of that node's kernel on inputs of small random numbers, for tables and reports.
double launch_ms(Value value, int threads = 2, int repeats = 15);

}  // namespace sectionflow::testing_support

#pragma once

#include <memory>

#include "device/device.h"

namespace sectionflow::testing_support {

/// The device that tests of kernels and strategies run on. SECTIONFLOW_TEST_DEVICE names it:
///   cpu       (the default)
///   emulated  a GPU that the host emulates, with the kernels of CUDA
///   queues    the same with the kernels of the CPU: fast, for what queues, events and recordings do
///   cuda      the machine's first GPU
/// Throws: ArgumentError for another name. A program of tests that is linked with it and told `cuda` where there is no
/// GPU says so in one line, and ends with kSkippedStatus before its first test.
DeviceSpec test_device();
/// The status of a program whose tests cannot run here.
inline constexpr int kSkippedStatus = 77;
/// Whether it is the CPU: for what holds of its kernels alone.
bool tests_run_on_cpu();
/// Whether it is a GPU, and not one that the host emulates.
bool tests_run_on_a_gpu();

}  // namespace sectionflow::testing_support

#include "tests/support/kernel_runner.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "device/cpu_device.h"
#include "graph/op_def.h"
#include "tests/support/emulated_device.h"

namespace sectionflow::testing_support {

op_cases::CaseDevice test_case_device() {
  if (tests_run_on_a_gpu()) return op_cases::case_device(test_device());
  op_cases::CaseDevice device{.make = [](int threads, std::uint64_t order_seed) -> std::shared_ptr<Device> {
    const EmulatedOrder order(order_seed);
    return make_device(test_device(), threads);
  }};
  // An emulated GPU has no team.
  if (!tests_run_on_cpu()) device.team_sizes = {1};
  return device;
}

std::string implementation_of(Value value, int threads) {
  const std::shared_ptr<Device> device = test_case_device().make(threads, 0);
  const auto scope = device->enter();
  return op_cases::make_kernel(op_cases::make_call(value.node()), *device)->implementation();
}

double launch_ms(Value value, int threads, int repeats) {
  CpuDevice device(threads);
  const auto scope = device.enter();
  const op_cases::NodeCall call = op_cases::make_call(value.node());
  const auto kernel = op_cases::make_kernel(call, device);
  std::mt19937 random(1);
  std::vector<HostTensor> tensors;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const TensorType& type : call.inputs) {
    HostTensor& tensor = tensors.emplace_back(type);
    if (type.dtype == Dtype::f32) {
      for (float& x : tensor.values<float>()) x = static_cast<float>(random()) * 0x1p-32F;
    }
    inputs.push_back(tensor.bytes());
  }
  for (const TensorType& type : call.outputs) outputs.push_back(tensors.emplace_back(type).bytes());
  HostTensor workspace(Dtype::u8, {static_cast<std::int64_t>(kernel->workspace_bytes())});
  std::vector<double> times;
  for (int i = 0; i < repeats + 2; ++i) {  // the first two warm caches up
    const auto start = std::chrono::steady_clock::now();
    kernel->launch({inputs, outputs, {}, workspace.bytes(), {}});
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    if (i >= 2) times.push_back(elapsed.count());
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

}  // namespace sectionflow::testing_support

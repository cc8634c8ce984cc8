#include "device/device.h"

#include <glog/logging.h>

#include <mutex>

#include "base/error.h"
#include "device/cpu_device.h"
#include "device/cuda_module.h"

namespace sectionflow {

namespace {

std::unique_ptr<Device> open_device(const DeviceSpec& spec, int threads) {
  switch (spec.kind) {
    case DeviceKind::cpu:
      return std::make_unique<CpuDevice>(threads);
    case DeviceKind::cuda: {
      const CudaModule& module = cuda_module();
      SF_CHECK(spec.ordinal >= 0 && spec.ordinal < module.num_devices, DeviceError, "cuda: there is no GPU ",
               spec.ordinal, "; this machine has ", module.num_devices, ", counted from 0");
      return module.make_device(spec);
    }
  }
  throw DeviceError(error_text_of("there is no device of kind ", static_cast<int>(spec.kind),
                                  "; devices known: cpu, cuda", hint("take {.device = cpu()}")));
}

}  // namespace

std::unique_ptr<Device> make_device(const DeviceSpec& spec, int threads) {
  // One for all devices: problems name the GPU, and GPUs of one kind run the same algorithms.
  static const auto choices_of_process = std::make_shared<ChoiceStore>();
  auto device = open_device(spec, threads);
  device->choices().share(choices_of_process);
  device->choices().set_autotune(spec.autotune);
  return device;
}

DeviceSpec best_device() {
  static const DeviceSpec best = [] {
    try {
      if (cuda_module().num_devices > 0) return cuda();
      LOG(INFO) << "computing on the CPU: there is no GPU";
    } catch (const DeviceError& error) {
      LOG(INFO) << "computing on the CPU: " << error.what();
    }
    return cpu();
  }();
  return best;
}

}  // namespace sectionflow

#include "device/device.h"

#include <glog/logging.h>

#include <mutex>

#include "base/error.h"
#include "device/cpu_device.h"
#include "device/cuda_module.h"

namespace sectionflow {

std::unique_ptr<Device> make_device(const DeviceSpec& spec, int threads) {
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

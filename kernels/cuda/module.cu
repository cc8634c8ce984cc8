#include <nvtx3/nvToolsExt.h>

#include "base/error.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/own_kernels.h"
#include "device/cuda_module.h"
#include "kernels/cuda/cuda_kernels.h"

using sectionflow::CudaModule;

namespace {

nvtxDomainHandle_t range_domain() {
  static const nvtxDomainHandle_t domain = nvtxDomainCreateA("SectionFlow");
  return domain;
}

void push_range(const char* name) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(range_domain(), &attributes);
}

void pop_range() {
  nvtxDomainRangePop(range_domain());
}

}  // namespace

/// See kCudaModuleEntry. Nothing leaves it but its result.
extern "C" __attribute__((visibility("default"))) bool sectionflow_cuda_module_v3(CudaModule& result,
                                                                                  std::string& why_not) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    (void)cudaGetLastError();
    why_not = sectionflow::text_of(cudaGetErrorString(status), " (", cudaGetErrorName(status), ")");
    return false;
  }
  if (count == 0) {
    why_not = "there is no GPU on this machine";
    return false;
  }
  result.num_devices = count;
  result.make_device = [](const sectionflow::DeviceSpec& spec) -> std::unique_ptr<sectionflow::Device> {
    auto device = std::make_unique<sectionflow::CudaDevice>(spec.ordinal);
    device->set_allow_tf32(spec.allow_tf32);
    return device;
  };
  result.kernels = sectionflow::cuda_kernels;
  result.push_range = push_range;
  result.pop_range = pop_range;
  return true;
}

/// For a test that counts, without a GPU: how many kernels are loaded when a device is opened.
extern "C" __attribute__((visibility("default"))) std::size_t sectionflow_cuda_num_own_kernels() {
  return sectionflow::gpu::num_own_kernels();
}

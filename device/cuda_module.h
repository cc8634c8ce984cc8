#pragma once

#include <memory>
#include <string>

#include "base/export.h"
#include "device/device.h"

namespace SF_API sectionflow {

class KernelRegistry;

/// What device/cuda and kernels/cuda give to the others: devices and kernels. They live in a shared object of their
/// own, libsectionflow_cuda.so, since merely linking cuBLAS costs 217 MiB of resident memory and a program that starts
/// nowhere without it.
struct CudaModule {
  int num_devices = 0;
  /// Throws: DeviceError when there is no such device or it refuses.
  std::unique_ptr<Device> (*make_device)(const DeviceSpec& spec) = nullptr;
  const KernelRegistry& (*kernels)() = nullptr;
  // Begin and end a range of NVTX on the calling thread; nullptr: nothing is marked.
  void (*push_range)(const char* name) = nullptr;
  void (*pop_range)() = nullptr;
};

/// The version of CudaModule and of the interfaces behind it; both sides must have been built with the same.
inline constexpr int kCudaModuleVersion = 3;

/// The name, and type, of the one function that the shared object exports: fills `result`, or returns false and says in
/// `why_not` what is missing.
inline constexpr const char* kCudaModuleEntry = "sectionflow_cuda_module_v3";
using CudaModuleEntry = bool (*)(CudaModule& result, std::string& why_not);

/// The module, loaded at the first call. Throws: DeviceError that says what is missing: the driver, the shared object,
/// a GPU.
const CudaModule& cuda_module();
/// For tests that emulate a GPU: this module is given from here on instead; nullptr: the real one again.
void set_cuda_module(const CudaModule* module);

}  // namespace sectionflow

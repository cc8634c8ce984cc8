#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <memory>
#include <string>

#include "device/device.h"

namespace sectionflow {

/// What the kernels of the libraries see of a GPU, for tests without one. Its handles are names that the played
/// libraries know; its memory is the host's.
class CudaDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string name() const override { return "cuda:0 (played)"; }
  int threads() const override { return 1; }
  std::size_t total_memory() const override { return 0; }
  std::unique_ptr<DeviceMemory> allocate(std::size_t) override { return nullptr; }
  void copy_from_host(void*, const void*, std::size_t) override {}
  void copy_to_host(void*, const void*, std::size_t) override {}
  std::unique_ptr<void, void (*)(void*)> enter() override {
    return {nullptr, [](void*) {}};
  }

  void set_allow_tf32(bool allow) { allow_tf32_ = allow; }
  bool allow_tf32() const { return allow_tf32_; }
  cublasLtHandle_t cublas() { return reinterpret_cast<cublasLtHandle_t>(std::uintptr_t{0x11}); }
  cudnnHandle_t cudnn() { return reinterpret_cast<cudnnHandle_t>(std::uintptr_t{0x22}); }

 private:
  bool allow_tf32_ = false;
};

}  // namespace sectionflow

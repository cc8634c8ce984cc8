#pragma once

#include <memory>

#include "device/device.h"
#include "device/onednn.h"

namespace sectionflow {

/// The CPU as a full device: its own block of memory, copies carried by the compute team.
///
/// The number of threads is fixed when the device is made, before any kernel, since kernels bake it in; it is never
/// above OpenMP's limit. Whoever enters has a team of exactly that size, or is refused (ComputeTeam).
class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int threads);

  DeviceKind kind() const override { return DeviceKind::cpu; }
  std::string name() const override;
  std::string arithmetic() const override;
  int threads() const override { return threads_; }
  std::size_t total_memory() const override;
  std::unique_ptr<DeviceMemory> allocate(std::size_t num_bytes) override;
  void copy_from_host(void* device, const void* host, std::size_t num_bytes) override;
  void copy_to_host(void* host, const void* device, std::size_t num_bytes) override;
  std::unique_ptr<void, void (*)(void*)> enter() override;

  OneDnn& onednn() { return onednn_; }

 private:
  int threads_;
  OneDnn onednn_;
};

/// Cores that this process may use.
int available_cores();

}  // namespace sectionflow

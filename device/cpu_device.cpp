#include "device/cpu_device.h"

#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "device/instruction_set.h"
#include "device/mapped_memory.h"
#include "device/onednn.h"
#include "device/parallel.h"

namespace sectionflow {
namespace {

void copy(void* to, const void* from, std::size_t num_bytes) {
  parallel_for(static_cast<std::int64_t>(num_bytes), std::int64_t{1} << 20, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                static_cast<std::size_t>(end - begin));
  });
}

}  // namespace

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

// A team larger than OpenMP's limit would be cut at run time, under kernels that were made for the larger one.
CpuDevice::CpuDevice(int threads)
    : threads_(std::min(threads == 0 ? available_cores() : threads, omp_get_thread_limit())) {
  SF_CHECK(threads >= 0 && threads <= 1024, ArgumentError, "cpu: ", threads,
           " threads; wanted 1 to 1024, or 0 for every core");
  bound_primitive_cache();
}

std::string CpuDevice::name() const {
  return "cpu (" + std::to_string(threads_) + (threads_ == 1 ? " thread)" : " threads)");
}

std::string CpuDevice::arithmetic() const {
  return onednn_version() + ", " + to_string(instruction_set());
}

std::size_t machine_memory() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t CpuDevice::total_memory() const {
  return machine_memory();
}

std::unique_ptr<DeviceMemory> CpuDevice::allocate(std::size_t num_bytes) {
  return map_memory(num_bytes, {.tier = "cpu", .option = "device_memory"});
}

void CpuDevice::copy_from_host(void* device, const void* host, std::size_t num_bytes) {
  copy(device, host, num_bytes);
}
void CpuDevice::copy_to_host(void* host, const void* device, std::size_t num_bytes) {
  copy(host, device, num_bytes);
}

std::unique_ptr<void, void (*)(void*)> CpuDevice::enter() {
  return {new ComputeTeam(threads_), [](void* team) { delete static_cast<ComputeTeam*>(team); }};
}

}  // namespace sectionflow

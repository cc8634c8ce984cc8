#include "op_case/case_device.h"

#include <map>
#include <mutex>

namespace sectionflow::op_cases {
namespace {

/// GPUs are opened once a process: their libraries take long to begin. Never closed, since they end before us.
std::shared_ptr<Device> opened_gpu(const DeviceSpec& spec, int threads) {
  static std::mutex mutex;
  static auto* const all = new std::map<int, Device*>;
  const std::lock_guard lock(mutex);
  Device*& gpu = (*all)[spec.ordinal];
  if (gpu == nullptr) gpu = make_device(spec, threads).release();
  return {gpu, [](Device*) {}};
}

}  // namespace

CaseDevice case_device(const DeviceSpec& spec) {
  if (spec.kind == DeviceKind::cpu) {
    return {.make = [spec](int threads, std::uint64_t) { return std::shared_ptr<Device>(make_device(spec, threads)); }};
  }
  return {.make = [spec](int threads, std::uint64_t) { return opened_gpu(spec, threads); }, .has_library_bf16 = true};
}

}  // namespace sectionflow::op_cases

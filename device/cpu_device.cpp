#include "device/cpu_device.h"

#include <omp.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "device/parallel.h"

namespace sectionflow {
namespace {

/// Anonymous mapping: pages come when they are first touched.
class MappedMemory final : public DeviceMemory {
 public:
  explicit MappedMemory(std::size_t num_bytes) : num_bytes_(num_bytes) {
    void* mapped =
        mmap(nullptr, mapped_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    SF_CHECK(mapped != MAP_FAILED, DeviceError, "cpu: ", bytes_text(num_bytes),
             " of memory were refused: ", std::strerror(errno), "; try a smaller device_memory");
    data_ = static_cast<std::byte*>(mapped);
    // Advice only: large pages spare page faults, and their absence changes nothing else.
    (void)madvise(mapped, mapped_bytes(), MADV_HUGEPAGE);
  }
  ~MappedMemory() override { munmap(data_, mapped_bytes()); }
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  std::byte* data() override { return data_; }
  std::size_t num_bytes() const override { return num_bytes_; }

  std::size_t discardable_offset(std::size_t offset) const override {
    const auto base = reinterpret_cast<std::uintptr_t>(data_);
    return std::min(round_up(base + offset, kLargePage) - base, num_bytes_);
  }
  void discard_from(std::size_t offset) override {
    const std::size_t first = discardable_offset(offset);
    if (first < num_bytes_) (void)madvise(data_ + first, num_bytes_ - first, MADV_DONTNEED);
  }
  std::size_t touched_end(std::size_t offset) const override {
    // In chunks, so that a huge untouched block needs no huge table.
    constexpr std::size_t kChunk = std::size_t{1} << 30;
    const std::size_t first = discardable_offset(offset);
    std::vector<unsigned char> resident(kChunk / kPage);
    std::size_t end = offset;
    for (std::size_t begin = first; begin < num_bytes_; begin += kChunk) {
      const std::size_t length = std::min(kChunk, num_bytes_ - begin);
      SF_CHECK(mincore(data_ + begin, length, resident.data()) == 0, DeviceError,
               "cpu: mincore: ", std::strerror(errno));
      for (std::size_t page = 0; page * kPage < length; ++page) {
        if ((resident[page] & 1U) != 0) end = std::min(num_bytes_, begin + (page + 1) * kPage);
      }
    }
    return end;
  }

 private:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kLargePage = std::size_t{2} << 20;

  std::size_t mapped_bytes() const { return num_bytes_ > 0 ? num_bytes_ : 1; }
  std::size_t num_bytes_;
  std::byte* data_ = nullptr;
};

constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;

void flush_denormals() {
  _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
}

/// What enter() changes on the calling thread, to be restored.
struct ThreadState {
  int max_threads;
  unsigned control;
};

void restore_thread(void* state) {
  const auto* previous = static_cast<ThreadState*>(state);
  omp_set_num_threads(previous->max_threads);
  _mm_setcsr(previous->control);
  delete previous;
}

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

std::unique_ptr<Device> make_device(const DeviceSpec& spec, int threads) {
  SF_CHECK(spec.kind == DeviceKind::cpu, DeviceError, "there is no device of kind ", static_cast<int>(spec.kind),
           "; devices known: cpu", hint("take {.device = cpu()}"));
  return std::make_unique<CpuDevice>(threads);
}

// A team larger than OpenMP's limit would be cut at run time, under kernels that were made for the larger one.
CpuDevice::CpuDevice(int threads)
    : threads_(std::min(threads == 0 ? available_cores() : threads, omp_get_thread_limit())) {
  SF_CHECK(threads >= 0 && threads <= 1024, ArgumentError, "cpu: ", threads,
           " threads; wanted 1 to 1024, or 0 for every core");
}

std::string CpuDevice::name() const {
  return "cpu (" + std::to_string(threads_) + (threads_ == 1 ? " thread)" : " threads)");
}

std::size_t machine_memory() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t CpuDevice::total_memory() const {
  return machine_memory();
}

std::unique_ptr<DeviceMemory> CpuDevice::allocate(std::size_t num_bytes) {
  return std::make_unique<MappedMemory>(num_bytes);
}

void CpuDevice::copy_from_host(void* device, const void* host, std::size_t num_bytes) {
  copy(device, host, num_bytes);
}
void CpuDevice::copy_to_host(void* host, const void* device, std::size_t num_bytes) {
  copy(host, device, num_bytes);
}

std::unique_ptr<void, void (*)(void*)> CpuDevice::enter() {
  auto* previous = new ThreadState{omp_get_max_threads(), _mm_getcsr()};
  omp_set_num_threads(threads_);
  flush_denormals();
  // Workers that existed before keep their own mode until they are told.
#pragma omp parallel num_threads(threads_)
  flush_denormals();
  return {previous, restore_thread};
}

}  // namespace sectionflow

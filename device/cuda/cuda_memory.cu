#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "base/bytes.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/own_kernels.h"

namespace sectionflow {
namespace {

constexpr unsigned kThreads = 256, kBlocks = 1024;

__global__ void write_words(std::uint32_t* words, std::size_t count, std::uint32_t word) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) words[i] = word;
}

/// Raises *end to the number of words up to the last that is not `word`. Integers: the order of the atomics is nothing
/// to the result.
__global__ void find_changed(const std::uint32_t* words, std::size_t count, std::uint32_t word,
                             unsigned long long* end) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  unsigned long long last = 0;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    if (words[i] != word) last = i + 1;
  }
  if (last > 0) atomicMax(end, last);
}

[[maybe_unused]] const bool kLoadsWrite = gpu::add_own_kernel(reinterpret_cast<const void*>(&write_words));
[[maybe_unused]] const bool kLoadsFind = gpu::add_own_kernel(reinterpret_cast<const void*>(&find_changed));

/// The bytes that are allocated on a GPU. It stays where it is.
std::atomic<std::size_t>& allocated_bytes_of(int ordinal) {
  static std::mutex mutex;
  static std::map<int, std::atomic<std::size_t>> bytes;
  const std::lock_guard lock(mutex);
  return bytes[ordinal];
}

class CudaMemory final : public DeviceMemory {
 public:
  CudaMemory(std::size_t num_bytes, int ordinal)
      : num_bytes_(num_bytes), ordinal_(ordinal), allocated_bytes_(allocated_bytes_of(ordinal)) {
    select();
    // The counter of changed_end lies behind, so that there is nothing but one block.
    const cudaError_t status = cudaMalloc(&data_, taken_bytes());
    if (status == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      std::size_t free = 0, total = 0;
      (void)cudaMemGetInfo(&free, &total);
      throw DeviceError(text_of("cuda: ", bytes_text(num_bytes), " of device memory were refused; ", bytes_text(free),
                                " of ", bytes_text(total), " are free; try a smaller device_memory"));
    }
    gpu::check_cuda(status, "cudaMalloc");
    allocated_bytes_ += taken_bytes();
  }
  ~CudaMemory() override {
    (void)cudaSetDevice(ordinal_);
    (void)cudaFree(data_);
    allocated_bytes_ -= taken_bytes();
  }
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  std::byte* data() override { return static_cast<std::byte*>(data_); }
  std::size_t num_bytes() const override { return num_bytes_; }
  // Pages do not show whether they were touched: all of the memory is filled with words instead.
  void discard_from(std::size_t) override {}
  std::size_t touched_end(std::size_t offset) const override { return offset; }
  std::size_t discardable_offset(std::size_t) const override { return num_bytes_; }

  void fill_words(std::size_t offset, std::size_t num_bytes, std::uint32_t word) override {
    select();
    // The last bytes of a block whose size is no multiple of a word's are nobody's.
    write_words<<<kBlocks, kThreads>>>(words(offset), num_bytes / sizeof(word), word);
    gpu::check_cuda(cudaGetLastError(), "fill of device memory");
    gpu::check_cuda(cudaDeviceSynchronize(), "fill of device memory");
  }
  std::size_t changed_end(std::size_t offset, std::size_t end, std::uint32_t word) override {
    if (end <= offset) return offset;
    const std::size_t count = (end - offset) / sizeof(word);
    select();
    unsigned long long changed = 0;
    auto* last_changed = reinterpret_cast<unsigned long long*>(data() + round_up(num_bytes_));
    gpu::check_cuda(cudaMemset(last_changed, 0, sizeof(changed)), "look at device memory");
    find_changed<<<kBlocks, kThreads>>>(words(offset), count, word, last_changed);
    gpu::check_cuda(cudaGetLastError(), "look at device memory");
    gpu::check_cuda(cudaMemcpy(&changed, last_changed, sizeof(changed), cudaMemcpyDeviceToHost),
                    "look at device memory");
    if (changed == 0) return offset;
    // Within the last word: the bytes behind the last changed one are still the word's.
    std::uint32_t found = 0;
    const std::size_t last = offset + (changed - 1) * sizeof(word);
    gpu::check_cuda(cudaMemcpy(&found, data() + last, sizeof(found), cudaMemcpyDeviceToHost), "look at device memory");
    std::size_t bytes = sizeof(word);
    while ((found >> (8 * (bytes - 1)) & 0xFF) == (word >> (8 * (bytes - 1)) & 0xFF)) --bytes;
    return last + bytes;
  }

 private:
  std::uint32_t* words(std::size_t offset) { return reinterpret_cast<std::uint32_t*>(data() + offset); }

  std::size_t taken_bytes() const { return round_up(num_bytes_) + kBufferAlignment; }
  void select() const { gpu::check_cuda(cudaSetDevice(ordinal_), "cudaSetDevice"); }

  std::size_t num_bytes_;
  int ordinal_;
  std::atomic<std::size_t>& allocated_bytes_;
  void* data_ = nullptr;
};

}  // namespace

std::unique_ptr<DeviceMemory> allocate_cuda_memory(std::size_t num_bytes, int ordinal) {
  return std::make_unique<CudaMemory>(num_bytes, ordinal);
}
std::size_t allocated_cuda_bytes(int ordinal) {
  return allocated_bytes_of(ordinal).load();
}

}  // namespace sectionflow

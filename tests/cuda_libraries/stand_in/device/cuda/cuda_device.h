#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "device/cuda/library_handles.h"
#include "device/device_queues.h"
#include "tests/cuda_libraries/fake_libraries.h"

namespace sectionflow {

/// Host memory of a fake GPU, counted while it is there.
class FakeMemory final : public DeviceMemory {
 public:
  explicit FakeMemory(std::size_t num_bytes) : bytes_(num_bytes + kBufferAlignment), num_bytes_(num_bytes) {
    auto& fake = testing_support::fake_libraries();
    fake.allocated_memory += num_bytes;
    fake.peak_allocated_memory = std::max(fake.peak_allocated_memory, fake.allocated_memory);
  }
  ~FakeMemory() override { testing_support::fake_libraries().allocated_memory -= num_bytes_; }
  std::byte* data() override {
    const auto start = reinterpret_cast<std::uintptr_t>(bytes_.data());
    return bytes_.data() + (round_up(start) - start);
  }
  std::size_t num_bytes() const override { return num_bytes_; }
  void discard_from(std::size_t) override {}
  std::size_t touched_end(std::size_t offset) const override { return offset; }
  std::size_t discardable_offset(std::size_t offset) const override { return offset; }
  void fill_words(std::size_t, std::size_t, std::uint32_t) override {}
  std::size_t changed_end(std::size_t offset, std::size_t, std::uint32_t) override { return offset; }

 private:
  std::vector<std::byte> bytes_;
  std::size_t num_bytes_;
};

/// What the kernels of the libraries see of a GPU, for tests without one. Its handles are those that the fake libraries
/// give; its memory is the host's, its work is done at once, and its events read the fake clock.
class CudaDevice final : public Device, public DeviceQueues {
 public:
  explicit CudaDevice(int ordinal = 0) : libraries_(library_handles(ordinal)) {}
  ~CudaDevice() override { libraries_.forget(stream()); }
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string name() const override { return "cuda:0 (fake)"; }
  int threads() const override { return 1; }
  std::size_t total_memory() const override { return testing_support::fake_libraries().free_memory; }
  std::unique_ptr<DeviceMemory> allocate(std::size_t num_bytes) override {
    SF_CHECK(num_bytes <= total_memory(), DeviceError, "cuda: ", num_bytes, " bytes are not free");
    return std::make_unique<FakeMemory>(num_bytes);
  }
  void copy_from_host(void*, const void*, std::size_t) override {}
  void copy_to_host(void*, const void*, std::size_t) override {}
  std::unique_ptr<void, void (*)(void*)> enter() override {
    return {nullptr, [](void*) {}};
  }
  DeviceQueues* queues() override { return this; }

  void* native(Queue) override { return static_cast<gpu::HostQueue*>(&queue_); }
  const RandomState* random_state() const override { return nullptr; }
  void set_random_state(const RandomState&) override {}
  std::unique_ptr<DeviceEvent> make_event() override { return std::make_unique<Event>(); }
  void record(DeviceEvent& event, Queue) override {
    static_cast<Event&>(event).time = testing_support::fake_libraries().clock;
  }
  void record_for_all(DeviceEvent& event, Queue queue) override { record(event, queue); }
  void wait(Queue, DeviceEvent&) override {}
  void synchronize(DeviceEvent&) override {}
  void synchronize() override {}
  double seconds_between(DeviceEvent& from, DeviceEvent& to) override {
    return static_cast<Event&>(to).time - static_cast<Event&>(from).time;
  }
  void copy_to_host(Queue, void*, const void*, std::size_t) override {}
  void copy_from_host(Queue, void*, const void*, std::size_t) override {}
  void copy(Queue, void*, const void*, std::size_t) override {}
  void copy_feed(int, void*, const void*, std::size_t) override {}
  void fill(Queue, void* device, int byte, std::size_t num_bytes) override { std::memset(device, byte, num_bytes); }
  std::unique_ptr<DeviceMemory> allocate_host(std::size_t) override { return nullptr; }
  void pin(void*, std::size_t) override {}
  void unpin(void*) noexcept override {}
  void begin_recording() override {}
  std::unique_ptr<DeviceGraph> end_recording() override { return nullptr; }
  void cancel_recording() noexcept override {}
  void set_feeds(DeviceGraph&, std::span<const std::byte* const>) override {}
  void launch(DeviceGraph&) override {}

  void set_allow_tf32(bool allow) { allow_tf32_ = allow; }
  bool allow_tf32() const { return allow_tf32_; }
  const std::string& cublas_problem() const { return cublas_problem_; }
  const std::string& cudnn_problem() const { return cudnn_problem_; }
  cublasLtHandle_t cublas() { return libraries_.cublas(); }
  LibraryHandles::Cudnn cudnn() { return libraries_.cudnn(stream()); }

 private:
  struct Event final : DeviceEvent {
    double time = 0;
  };

  cudaStream_t stream() { return static_cast<cudaStream_t>(native(Queue::compute)); }

  LibraryHandles& libraries_;
  testing_support::DirectQueue queue_;
  bool allow_tf32_ = false;
  std::string cublas_problem_ = "cublaslt 1 on a fake GPU: ", cudnn_problem_ = "cudnn 1 on a fake GPU: ";
};

}  // namespace sectionflow

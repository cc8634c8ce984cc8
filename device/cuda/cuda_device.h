#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "device/cuda/library_handles.h"
#include "device/device_queues.h"
#include "device/tf32.h"

namespace sectionflow {

/// A GPU: one block of memory, three streams, and the process's handles of the libraries. What context, handles and the
/// code of our own kernels take of the GPU's memory is there when the constructor returns; code of the libraries comes
/// with its first use.
class CudaDevice final : public Device, public DeviceQueues, public Tf32Choice {
 public:
  /// Throws: DeviceError.
  explicit CudaDevice(int ordinal);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string name() const override { return name_; }
  int threads() const override { return 1; }
  /// What was free when the context stood.
  std::size_t total_memory() const override { return free_bytes_; }
  std::size_t context_bytes() const override;
  std::unique_ptr<DeviceMemory> allocate(std::size_t num_bytes) override;
  void copy_from_host(void* device, const void* host, std::size_t num_bytes) override;
  void copy_to_host(void* host, const void* device, std::size_t num_bytes) override;
  std::unique_ptr<void, void (*)(void*)> enter() override;
  DeviceQueues* queues() override { return this; }
  bool has_problem(const std::string& problem) const override;

  void* native(Queue queue) override { return stream(queue); }
  const RandomState* random_state() const override { return random_state_; }
  void set_random_state(const RandomState& state) override;
  std::unique_ptr<DeviceEvent> make_event() override;
  void record(DeviceEvent& event, Queue queue) override;
  void record_for_all(DeviceEvent& event, Queue queue) override;
  void wait(Queue queue, DeviceEvent& event) override;
  void synchronize(DeviceEvent& event) override;
  void synchronize() override;
  double seconds_between(DeviceEvent& from, DeviceEvent& to) override;
  void copy_to_host(Queue queue, void* host, const void* device, std::size_t num_bytes) override;
  void copy_from_host(Queue queue, void* device, const void* host, std::size_t num_bytes) override;
  void copy(Queue queue, void* to, const void* from, std::size_t num_bytes) override;
  void copy_feed(int feed, void* device, const void* host, std::size_t num_bytes) override;
  void fill(Queue queue, void* device, int byte, std::size_t num_bytes) override;
  std::unique_ptr<DeviceMemory> allocate_host(std::size_t num_bytes) override;
  void pin(void* host, std::size_t num_bytes) override;
  void unpin(void* host) noexcept override;
  void begin_recording() override;
  std::unique_ptr<DeviceGraph> end_recording() override;
  void cancel_recording() noexcept override;
  void set_feeds(DeviceGraph& graph, std::span<const std::byte* const> hosts) override;
  void launch(DeviceGraph& graph) override;

  /// Whether the libraries and attention may round the factors of f32 products to TF32 (10 bits of fraction): some
  /// eight times as fast, and no longer f32. Kernels read it when they are made: set it before the first one.
  void set_allow_tf32(bool allow) { allow_tf32_ = allow; }
  bool allow_tf32() const override { return allow_tf32_; }

  cublasLtHandle_t cublas() { return libraries_->cublas(); }
  /// How problems of each library begin (AlgorithmChoices): all that an algorithm's bits depend on besides the
  /// question. GPUs of one kind have the same.
  const std::string& cublas_problem() const { return cublas_problem_; }
  const std::string& cudnn_problem() const { return cudnn_problem_; }
#if defined(SF_HAS_CUDNN)
  /// cuDNN, whose work joins the compute queue, for as long as the returned object lives.
  LibraryHandles::Cudnn cudnn() {
    return libraries_->cudnn(stream(Queue::compute));
  }
#endif

  /// A copy in a recording whose source may change.
  struct FeedCopy {
    int feed = 0;
    cudaGraphNode_t node = nullptr;
    void* device = nullptr;
    const void* host = nullptr;  // as it reads now
    std::size_t num_bytes = 0;
    std::uint64_t num_unpinned = 0;  // when it was told so
  };

 private:
  cudaStream_t stream(Queue queue) {
    return streams_[static_cast<std::size_t>(queue)];
  }
  void make_handles();
  void free_all() noexcept;
  void select() const;

  int ordinal_;
  std::string name_, cublas_problem_, cudnn_problem_;
  std::array<cudaStream_t, kNumQueues> streams_{};
  LibraryHandles* libraries_ = nullptr;
  RandomState* random_state_ = nullptr;  // on the device
  RandomState* new_state_ = nullptr;     // pinned
  bool is_recording_ = false;
  std::vector<FeedCopy> recorded_feeds_;
  std::atomic<std::uint64_t> num_unpinned_ = 0;  // so far, on any thread
  std::size_t free_bytes_ = 0;
  bool allow_tf32_ = false;
};

}  // namespace sectionflow

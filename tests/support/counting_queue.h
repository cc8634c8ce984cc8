#pragma once

#include <functional>
#include <utility>

#include "kernels/cuda/host_thread.h"

namespace sectionflow::testing_support {

/// Hands on to another queue and counts.
class CountingQueue final : public gpu::HostQueue {
 public:
  explicit CountingQueue(void* queue) : queue_(*static_cast<gpu::HostQueue*>(queue)) {}
  int launches = 0;

  void enqueue_each(std::int64_t count, std::function<void(std::int64_t)> body) override {
    ++launches;
    queue_.enqueue_each(count, std::move(body));
  }
  void enqueue_blocks(const gpu::LaunchShape& shape, std::function<void(gpu::HostThread&)> body) override {
    ++launches;
    queue_.enqueue_blocks(shape, std::move(body));
  }
  void enqueue_host(std::function<void()> work) override { queue_.enqueue_host(std::move(work)); }
  void enqueue_copy(void* to, const void* from, std::size_t bytes) override { queue_.enqueue_copy(to, from, bytes); }

 private:
  gpu::HostQueue& queue_;
};

}  // namespace sectionflow::testing_support

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>

#if defined(__CUDACC__)
#error "only for kernels that are emulated on the host"
#endif

namespace sectionflow::gpu {

struct LaunchShape;

/// One thread of a kernel that is emulated on the host. Gives the body what a GPU gives it, and checks what a GPU does
/// not: that barriers are reached by all threads of a block, that shared memory is written before it is read, is not
/// overrun, is not touched by two threads between two barriers if one of them writes, and that elements lie at
/// multiples of their size. Implemented by the emulator of the tests. Throws: InternalError for each of these.
class HostThread {
 public:
  virtual ~HostThread() = default;

  std::int64_t block() const { return block_; }
  std::int64_t num_blocks() const { return num_blocks_; }
  int index() const { return index_; }
  int block_size() const { return block_size_; }

  virtual void barrier() = 0;
  /// The value that the lane `lane_mask` apart (exclusive or) in this thread's warp gave; all lanes must call.
  template <class T>
  T shuffle_xor(T value, int lane_mask) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
    T other{};
    exchange(&value, &other, sizeof(T), lane_mask);
    return other;
  }
  /// What each lane of this thread's warp gave; all lanes must call.
  template <class T>
  std::array<T, 32> of_warp(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::array<T, 32> all;
    gather(&value, all.data(), sizeof(T));
    return all;
  }

  /// An element of shared memory: reads and writes are checked.
  template <class T>
  class SharedElement {
   public:
    SharedElement(HostThread& thread, std::size_t offset) : thread_(thread), offset_(offset) {}
    operator T() const {  // NOLINT: stands for the element
      T value;
      thread_.read_shared(offset_, &value, sizeof(T));
      return value;
    }
    SharedElement& operator=(T value) {
      thread_.write_shared(offset_, &value, sizeof(T));
      return *this;
    }
    SharedElement& operator=(const SharedElement& other) { return *this = static_cast<T>(other); }
    SharedElement& operator+=(T value) { return *this = static_cast<T>(*this) + value; }

   private:
    HostThread& thread_;
    std::size_t offset_;
  };
  template <class T>
  class SharedArray {
   public:
    SharedArray(HostThread& thread, std::size_t offset, std::int64_t count)
        : thread_(&thread), offset_(offset), count_(count) {}
    SharedElement<T> operator[](std::int64_t i) const {
      thread_->check_index(i, count_);
      return {*thread_, offset_ + static_cast<std::size_t>(i) * sizeof(T)};
    }

   private:
    HostThread* thread_;
    std::size_t offset_;
    std::int64_t count_;
  };
  /// `count` elements of the block's shared memory from byte `offset` on.
  template <class T>
  SharedArray<T> shared(std::size_t offset, std::int64_t count) {
    check_shared_range(offset, static_cast<std::size_t>(count) * sizeof(T), alignof(T));
    return {*this, offset, count};
  }

 protected:
  std::int64_t block_ = 0, num_blocks_ = 1;
  int index_ = 0, block_size_ = 1;

 private:
  virtual void exchange(const void* value, void* other, std::size_t bytes, int lane_mask) = 0;
  virtual void gather(const void* value, void* all, std::size_t bytes) = 0;
  virtual void read_shared(std::size_t offset, void* value, std::size_t bytes) = 0;
  virtual void write_shared(std::size_t offset, const void* value, std::size_t bytes) = 0;
  virtual void check_shared_range(std::size_t offset, std::size_t bytes, std::size_t alignment) = 0;
  virtual void check_index(std::int64_t index, std::int64_t count) = 0;
};

/// A queue of kernels that are emulated on the host; what KernelArguments::queue points to there.
class HostQueue {
 public:
  virtual ~HostQueue() = default;
  /// Calls body(i) for i in [0, count), in any order.
  virtual void enqueue_each(std::int64_t count, std::function<void(std::int64_t)> body) = 0;
  /// Calls body(thread) for each thread of each block, in any order that barriers allow.
  virtual void enqueue_blocks(const LaunchShape& shape, std::function<void(HostThread&)> body) = 0;
  virtual void enqueue_host(std::function<void()> work) = 0;
  virtual void enqueue_copy(void* to, const void* from, std::size_t bytes) = 0;
};

}  // namespace sectionflow::gpu

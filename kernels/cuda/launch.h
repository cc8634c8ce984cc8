#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/host_device.h"
#if defined(__CUDACC__)
#include <cuda_runtime.h>

#include "device/cuda/cuda_check.h"
#include "device/cuda/own_kernels.h"
#else
#include "kernels/cuda/host_thread.h"
#endif

/// Kernels of our own. A kernel's **body** is a struct of plain values with a templated operator(): it runs in CUDA
/// blocks, and, compiled by the host's compiler, thread by thread in the tests' emulator.
///
/// - `launch_each(queue, count, body)`: body(i) for each i, in any order: element-wise work.
/// - `launch_blocks(queue, shape, body)`: body(thread) for each thread of each block. A thread has block(),
///   num_blocks(), index(), block_size(), barrier(), shuffle_xor(value, mask) within its warp of 32, and shared<T>(byte
///   offset, count): elements of the block's shared memory. Name the type of what is read from it (`const float x =
///   tile[i]`): on the host `tile[i]` is an object that checks.
/// - `copy_bytes`: on the device, in order.
/// - `launch_host(queue, function, data)`: function(data) on a thread of the host, in order: what the queue was given
///   before is done then, what it is given later waits. It must not call the device, nor wait for it; `data` must live
///   as long as the queue, or a recording of it, may come to it.
///
/// All join the queue of KernelArguments::queue and return at once. Bodies must not allocate, print or use atomics on
/// floating point numbers. Nothing contracts a * b + c by itself; write fmaf where it is wanted.
namespace sectionflow::gpu {

inline constexpr int kWarp = 32;
/// The most threads of a block: as many may have 255 registers each, all that the compiler gives, on every GPU.
inline constexpr int kMostThreads = 256;

/// How many blocks of how many threads, with how much shared memory a block.
struct LaunchShape {
  std::int64_t blocks = 0;
  int threads = 256;             ///< a multiple of 32, at most kMostThreads
  std::size_t shared_bytes = 0;  ///< at most 48 KiB
};

/// Calls launch(first, count) for each grid that `blocks` blocks are launched as: a grid has fewer than 2^31.
template <class Launch>
void for_each_grid(std::int64_t blocks, const Launch& launch) {
  constexpr std::int64_t kMostBlocks = (std::int64_t{1} << 31) - 1;
  for (std::int64_t first = 0; first < blocks; first += kMostBlocks)
    launch(first, std::min(blocks - first, kMostBlocks));
}

/// A body is passed with its launch: as bytes, and as few as any GPU takes.
inline constexpr std::size_t kMostBodyBytes = 4000;
template <class Body>
constexpr void check_body() {
  static_assert(std::is_trivially_copyable_v<Body> && sizeof(Body) <= kMostBodyBytes);
}

#if defined(__CUDACC__)

/// The thread that runs, as bodies see it.
class DeviceThread {
 public:
  __device__ DeviceThread(std::int64_t first_block, std::int64_t num_blocks)
      : block_(first_block + blockIdx.x), num_blocks_(num_blocks) {}
  __device__ std::int64_t block() const { return block_; }
  __device__ std::int64_t num_blocks() const { return num_blocks_; }
  __device__ int index() const { return static_cast<int>(threadIdx.x); }
  __device__ int block_size() const { return static_cast<int>(blockDim.x); }
  __device__ void barrier() { __syncthreads(); }
  template <class T>
  __device__ T shuffle_xor(T value, int lane_mask) {
    return __shfl_xor_sync(0xFFFFFFFFU, value, lane_mask);
  }
  template <class T>
  __device__ T* shared(std::size_t offset, std::int64_t) {
    extern __shared__ double2 sectionflow_shared[];
    return reinterpret_cast<T*>(reinterpret_cast<char*>(sectionflow_shared) + offset);
  }

 private:
  std::int64_t block_, num_blocks_;
};

template <class Body>
__global__ void run_each(const std::int64_t count, const Body body) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    body(i);
  }
}
template <class Body>
__global__ void run_blocks(const std::int64_t first_block, const std::int64_t num_blocks, const Body body) {
  DeviceThread thread(first_block, num_blocks);
  body(thread);
}

/// Kernels that are launched anywhere are loaded when the device is opened: those of each source, since nvcc 13 gives
/// each its own host function, and code, of a body that several have.
template <class Body>
[[maybe_unused]] static const bool kLoadsEach = add_own_kernel(reinterpret_cast<const void*>(&run_each<Body>));
template <class Body>
[[maybe_unused]] static const bool kLoadsBlocks = add_own_kernel(reinterpret_cast<const void*>(&run_blocks<Body>));

template <class Body>
void launch_each(void* queue, std::int64_t count, const Body& body) {
  check_body<Body>();
  (void)kLoadsEach<Body>;
  if (count == 0) return;
  constexpr std::int64_t kEnoughBlocks = std::int64_t{1} << 20;
  const std::int64_t blocks = std::min((count + kMostThreads - 1) / kMostThreads, kEnoughBlocks);
  run_each<<<static_cast<unsigned>(blocks), kMostThreads, 0, static_cast<cudaStream_t>(queue)>>>(count, body);
  check_cuda(cudaGetLastError(), "launch of an element-wise kernel");
}
template <class Body>
void launch_blocks(void* queue, const LaunchShape& shape, const Body& body) {
  check_body<Body>();
  (void)kLoadsBlocks<Body>;
  for_each_grid(shape.blocks, [&](std::int64_t first, std::int64_t count) {
    run_blocks<<<static_cast<unsigned>(count), static_cast<unsigned>(shape.threads), shape.shared_bytes,
                 static_cast<cudaStream_t>(queue)>>>(first, shape.blocks, body);
    check_cuda(cudaGetLastError(), "launch of a kernel");
  });
}
inline void copy_bytes(void* queue, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0 || to == from) return;
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(queue)), "copy");
}
inline void launch_host(void* queue, void (*function)(void*), void* data) {
  check_cuda(cudaLaunchHostFunc(static_cast<cudaStream_t>(queue), function, data), "launch of a host function");
}

#else

template <class Body>
void launch_each(void* queue, std::int64_t count, const Body& body) {
  check_body<Body>();
  if (count > 0) static_cast<HostQueue*>(queue)->enqueue_each(count, body);
}
template <class Body>
void launch_blocks(void* queue, const LaunchShape& shape, const Body& body) {
  check_body<Body>();
  if (shape.blocks > 0)
    static_cast<HostQueue*>(queue)->enqueue_blocks(shape, [body](HostThread& thread) { body(thread); });
}
inline void copy_bytes(void* queue, void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) static_cast<HostQueue*>(queue)->enqueue_copy(to, from, bytes);
}
inline void launch_host(void* queue, void (*function)(void*), void* data) {
  static_cast<HostQueue*>(queue)->enqueue_each(1, [function, data](std::int64_t) { function(data); });
}

#endif

/// Blocks that give each of `count` items a thread.
inline std::int64_t blocks_for(std::int64_t count, int threads) {
  return (count + threads - 1) / threads;
}

}  // namespace sectionflow::gpu

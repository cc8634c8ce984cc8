#pragma once

#include <cublasLt.h>

#include <mutex>
#if defined(SF_HAS_CUDNN)
#include <cudnn.h>
#endif

namespace sectionflow {

/// The handles of the libraries on one GPU. Each takes device memory and time to make, so that a process has one of
/// each for all its sessions, and keeps it: the driver takes it back with the process. Threads: any.
class LibraryHandles {
 public:
  /// Of the calling thread's GPU. Throws: DeviceError where a library refuses.
  LibraryHandles();
  LibraryHandles(const LibraryHandles&) = delete;
  LibraryHandles& operator=(const LibraryHandles&) = delete;

  /// It holds nothing that calls change, and is told each call's stream: threads may share it.
  cublasLtHandle_t cublas() const { return cublas_; }

#if defined(SF_HAS_CUDNN)
  /// cuDNN's handle, for one thread at a time, whose work joins a stream: for as long as this lives. Other threads wait
  /// meanwhile, and so would the same one.
  class Cudnn {
   public:
    cudnnHandle_t handle() const { return handle_; }

   private:
    friend class LibraryHandles;
    Cudnn(std::mutex& mutex, cudnnHandle_t handle) : lock_(mutex), handle_(handle) {}
    std::unique_lock<std::mutex> lock_;
    cudnnHandle_t handle_;
  };
  /// A stream that is being recorded may be joined as well (cudnnSetStream: with CUDA 11.8 or later even its priority
  /// is taken over). Throws: DeviceError.
  [[nodiscard]] Cudnn cudnn(cudaStream_t stream);
#endif
  /// Said before a stream ends: another may come to lie where it lay.
  void forget(cudaStream_t stream) noexcept;

 private:
  cublasLtHandle_t cublas_ = nullptr;
#if defined(SF_HAS_CUDNN)
  cudnnHandle_t cudnn_ = nullptr;
  cudaStream_t stream_ = nullptr;  // that cuDNN's work joins
  std::mutex mutex_;               // of that handle
#endif
};

/// Those of a GPU, which is the calling thread's, made by whoever asks first. They stay where they are.
/// Throws: DeviceError, and the next one tries again.
LibraryHandles& library_handles(int ordinal);

}  // namespace sectionflow

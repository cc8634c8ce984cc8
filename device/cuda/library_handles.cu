#include <map>
#include <memory>

#include "base/error.h"
#include "device/cuda/library_handles.h"

namespace sectionflow {

LibraryHandles::LibraryHandles() {
  const cublasStatus_t cublas = cublasLtCreate(&cublas_);
  SF_CHECK(cublas == CUBLAS_STATUS_SUCCESS, DeviceError, "cuda: cublasLtCreate: ", cublasLtGetStatusString(cublas));
#if defined(SF_HAS_CUDNN)
  const cudnnStatus_t cudnn = cudnnCreate(&cudnn_);
  if (cudnn != CUDNN_STATUS_SUCCESS) (void)cublasLtDestroy(cublas_);
  SF_CHECK(cudnn == CUDNN_STATUS_SUCCESS, DeviceError, "cuda: cudnnCreate: ", cudnnGetErrorString(cudnn));
#endif
}

#if defined(SF_HAS_CUDNN)
LibraryHandles::Cudnn LibraryHandles::cudnn(cudaStream_t stream) {
  Cudnn taken(mutex_, cudnn_);
  if (stream == stream_) return taken;
  const cudnnStatus_t joined = cudnnSetStream(cudnn_, stream);
  SF_CHECK(joined == CUDNN_STATUS_SUCCESS, DeviceError, "cuda: cudnnSetStream: ", cudnnGetErrorString(joined));
  stream_ = stream;
  return taken;
}
#endif

void LibraryHandles::forget([[maybe_unused]] cudaStream_t stream) noexcept {
#if defined(SF_HAS_CUDNN)
  const std::lock_guard lock(mutex_);
  if (stream != stream_) return;
  stream_ = nullptr;
  (void)cudnnSetStream(cudnn_, nullptr);
#endif
}

LibraryHandles& library_handles(int ordinal) {
  // Whoever ends last, after this, may still have them forget a stream.
  static auto& mutex = *new std::mutex;
  static auto& handles = *new std::map<int, std::unique_ptr<LibraryHandles>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<LibraryHandles>& of_gpu = handles[ordinal];
  if (of_gpu == nullptr) of_gpu = std::make_unique<LibraryHandles>();
  return *of_gpu;
}

}  // namespace sectionflow

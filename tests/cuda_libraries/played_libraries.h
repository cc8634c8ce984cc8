#pragma once

#include <cublasLt.h>
#include <cudnn.h>

#include <cstddef>

/// cuBLASLt and cuDNN without a GPU. Descriptors are the libraries' own, which need none; the calls that choose an
/// algorithm or compute stand in this program in place of the libraries' own, ask the descriptors what they say, and
/// compute that with plain loops. What is odd about a call is a failure of the running test.
///
/// Both offer sound algorithms behind some that must not be taken: sums in no fixed order, fewer bits, transforms, and
/// what the library says does not work.
namespace sectionflow::testing_support {

struct PlayedLibraries {
  std::size_t workspace_bytes = 0;  ///< that algorithms ask for
  bool allow_tf32 = false;          ///< what kernels should have been told
  bool has_sound_algorithms = true;
  cublasStatus_t cublas_status = CUBLAS_STATUS_SUCCESS;  ///< of the choice of an algorithm
  cudnnStatus_t cudnn_status = CUDNN_STATUS_SUCCESS;
  int executions = 0;
};
/// The libraries of the running test; their workspace may be written.
PlayedLibraries& played_libraries();

/// Checks what every execution is given.
void check_execution(const void* one, const void* zero, void* workspace, std::size_t workspace_bytes);

}  // namespace sectionflow::testing_support

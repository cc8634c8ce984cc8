#pragma once

#include <cublasLt.h>
#include <cudnn.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <set>
#include <vector>

#include "kernels/cuda/launch.h"
#include "tests/support/gpu_blocks.h"

/// cuBLASLt and cuDNN without a GPU. Descriptors are the libraries' own, which need none; the calls that choose an
/// algorithm or compute stand in this program in place of the libraries' own, ask the descriptors what they say, and
/// compute that with plain loops. What is odd about a call is a failure of the running test.
///
/// Both offer sound algorithms behind some that must not be taken: sums in no fixed order, fewer bits, transforms, and
/// what the library says does not work.
namespace sectionflow::testing_support {

struct FakeLibraries {
  std::size_t workspace_bytes = 0;  ///< that algorithms ask for
  bool allow_tf32 = false;          ///< what kernels should have been told
  bool has_sound_algorithms = true;
  bool convolves_bf16 = true;                            ///< whether cuDNN has any algorithm for it
  cublasStatus_t cublas_status = CUBLAS_STATUS_SUCCESS;  ///< of the choice of an algorithm
  cudnnStatus_t cudnn_status = CUDNN_STATUS_SUCCESS;
  int executions = 0;

  /// How long each sound algorithm takes, by their numbers; so many are offered (by cuDNN two at most). What is not
  /// sound takes no time at all.
  std::vector<double> seconds{1};
  bool is_reversed = false;               ///< whether the last one is offered first
  std::vector<std::size_t> workspaces{};  ///< where they differ: of each sound algorithm, by their numbers
  std::set<int> refused{};                ///< those that are offered and then do not run
  bool has_left_error = false;            ///< whether CUDA's runtime has an error of a refusal to tell
  bool tells_workspace = true;            ///< whether cuDNN says of its first sound algorithm how much that needs
  int questions = 0;                      ///< how often a library was asked what it offers
  int latest = -1;                        ///< the sound algorithm that was executed last
  double clock = 0;                       ///< seconds of all executions
  double seconds_of_own = 100;            ///< how long a launch of our own takes
  std::size_t free_memory = 1 << 20;      ///< of the GPU
  std::size_t allocated_memory = 0;       ///< now
  std::size_t peak_allocated_memory = 0;
};
/// The libraries of the running test; their workspace may be written.
FakeLibraries& fake_libraries();
/// A queue whose work is done at once, and takes its time on the fake clock.
class DirectQueue final : public gpu::HostQueue {
 public:
  void enqueue_each(std::int64_t count, std::function<void(std::int64_t)> body) override {
    fake_libraries().clock += fake_libraries().seconds_of_own;
    for (std::int64_t i = 0; i < count; ++i) body(i);
  }
  void enqueue_blocks(const gpu::LaunchShape& shape, std::function<void(gpu::HostThread&)> body) override {
    fake_libraries().clock += fake_libraries().seconds_of_own;
    emulate_blocks(shape, body, 5);
  }
  void enqueue_host(std::function<void()> work) override { work(); }
  void enqueue_copy(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
};
/// How many handles this process has of each.
int num_cublas_handles();
int num_cudnn_handles();
/// The stream that cuDNN's work joins.
cudaStream_t cudnn_stream();

/// What a sound algorithm asks for.
std::size_t workspace_of(int number);
/// Whether it is refused, which then leaves an error.
bool refuses(int number);
/// Checks what every execution is given, and lets its time pass. `number`: which sound algorithm it is.
void check_execution(int number, const void* one, const void* zero, void* workspace, std::size_t workspace_bytes);
/// The numbers of the sound algorithms in the order in which they are offered; `most`: how many there are.
std::vector<int> offered_algorithms(std::size_t most);

}  // namespace sectionflow::testing_support

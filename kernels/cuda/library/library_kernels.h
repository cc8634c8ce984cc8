#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

#include "kernels/kernel_registry.h"

namespace sectionflow {

/// Adds the kernels that cuBLASLt and, where the build has it, cuDNN serve. Each takes the requests that its library
/// promises to compute alike every time, and leaves the others to the kernels behind it.
///
/// Which algorithm a kernel runs is decided by the first kernel that is made for its problem, by the library's
/// heuristic or by timing (DeviceSpec::autotune), and is the same in every later kernel of the process (choice.h); and
/// only algorithms are taken whose sums have one order. So a replay gives the bits of the first time. Whether f32
/// factors may be rounded to TF32 is CudaDevice::allow_tf32.
void add_library_kernels(KernelRegistry& registry);

namespace gpu {
struct PaddingRule;
}
/// cuBLASLt's kernels of "matmul", "add_matmul" and "matmul_over_rows"; `rule` says which rows are copied to begin well
/// (padded_product.h). Null where the library has none that we take.
std::unique_ptr<Kernel> make_cublas_matmul(const KernelRequest& request, const gpu::PaddingRule& rule);
std::unique_ptr<Kernel> make_cublas_add_matmul(const KernelRequest& request, const gpu::PaddingRule& rule);
std::unique_ptr<Kernel> make_cublas_matmul_over_rows(const KernelRequest& request, const gpu::PaddingRule& rule);

/// Matrix products, and convolutions that are matrix products as they lie.
void add_cublas_kernels(KernelRegistry& registry);
#if defined(SF_HAS_CUDNN)
/// Convolutions.
void add_cudnn_kernels(KernelRegistry& registry);
#endif

}  // namespace sectionflow

namespace sectionflow::gpu {

/// How much scratch a library's algorithm may ask for, where one does with that little. A constant: an algorithm that
/// followed the budget would give other bits under another budget. It is what cuBLAS recommends for GPUs from Hopper
/// on.
inline constexpr std::size_t kMostLibraryWorkspace = std::size_t{32} << 20;

template <auto destroy>
struct DestroyWith {
  template <class T>
  void operator()(T* descriptor) const noexcept {
    (void)destroy(descriptor);
  }
};
/// The owner of a library's descriptor, a pointer that the library's function `destroy` ends.
template <class Pointer, auto destroy>
using Descriptor = std::unique_ptr<std::remove_pointer_t<Pointer>, DestroyWith<destroy>>;

}  // namespace sectionflow::gpu

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "device/parallel.h"
#include "kernels/copies.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel.h"

namespace sectionflow {

/// Writes past the caches, for results so large that their lines leave the caches before anybody reads them: no line is
/// read first, only to be written over. Measured: zeros at 41 GB/s where memset writes 18. What one wrote, others may
/// read when it is gone.
class PastCaches {
 public:
  PastCaches() = default;
  PastCaches(const PastCaches&) = delete;
  PastCaches& operator=(const PastCaches&) = delete;
  ~PastCaches();

  static bool pays(std::size_t result_bytes) { return result_bytes >= std::size_t{1} << 25; }

  void copy(void* to, const void* from, std::size_t num_bytes) const;
  void zeros(void* to, std::size_t num_bytes) const;
};

/// Copies on the compute team; nothing to do where both are the same bytes. Otherwise they must not overlap.
void copy_bytes(void* to, const void* from, std::size_t num_bytes);
/// Zeros on the compute team.
void zero_bytes(void* to, std::size_t num_bytes);

/// The kernel whose output 0 is input 0, of `num_bytes`; nothing to do in place.
inline std::unique_ptr<Kernel> copy_kernel(std::size_t num_bytes) {
  return function_kernel(
      [num_bytes](const KernelArguments& arguments) {
        copy_bytes(arguments.outputs[0], arguments.inputs[0], num_bytes);
      },
      {.in_place = {{0, 0}}});
}

/// The kernel that computes output 0 from input 0 so; in place where that changes nothing.
std::unique_ptr<Kernel> strided_copy_kernel(const StridedCopy& copy);

/// The kernel that computes output 0 from input 0 so; in place where x is all of y.
std::unique_ptr<Kernel> bordered_copy_kernel(const BorderedCopy& copy);

}  // namespace sectionflow

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

/// Copies on the compute team; nothing to do where both are the same bytes. Otherwise they must not overlap.
inline void copy_bytes(void* to, const void* from, std::size_t num_bytes) {
  if (to == from) return;
  constexpr std::int64_t kGrainBytes = std::int64_t{1} << 18;
  parallel_for(static_cast<std::int64_t>(num_bytes), kGrainBytes, [=](std::int64_t begin, std::int64_t end) {
    std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                static_cast<std::size_t>(end - begin));
  });
}

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

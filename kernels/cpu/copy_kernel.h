#pragma once

#include <cstddef>
#include <memory>

#include "kernels/cpu/copy_bytes.h"
#include "kernels/function_kernel.h"

namespace sectionflow {

/// The kernel whose output 0 is input 0, of `num_bytes`; nothing to do in place.
inline std::unique_ptr<Kernel> copy_kernel(std::size_t num_bytes) {
  return function_kernel(
      [num_bytes](const KernelArguments& arguments) {
        copy_bytes(arguments.outputs[0], arguments.inputs[0], num_bytes);
      },
      {.in_place = {{0, 0}}});
}

}  // namespace sectionflow

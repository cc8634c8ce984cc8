#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/tensor_view.h"
#include "kernels/kernel.h"

namespace sectionflow {

/// x as a box within y, whose other elements are one value: pad, and the gradient of slice.
struct BorderedCopy {
  TensorType y{};
  Shape x{};
  std::vector<std::int64_t> before{};  ///< one an axis: where x begins
  double value = 0;
};

/// The kernel that computes output 0 from input 0 so; in place where x is all of y.
std::unique_ptr<Kernel> bordered_copy_kernel(const BorderedCopy& copy);

}  // namespace sectionflow

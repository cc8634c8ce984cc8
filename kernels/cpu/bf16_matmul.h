#pragma once

#include <cstdint>
#include <memory>

#include "device/onednn.h"
#include "kernels/kernel.h"
#include "kernels/matmul_problem.h"

namespace sectionflow {

/// How large the tiles are: both sides of about `long_side`, so that a product is near its peak; a shorter one has a
/// longer other, up to `elements` in all, 8 MiB.
struct Bf16Tiles {
  std::int64_t elements = std::int64_t{1} << 21, long_side = 1024;
};

/// y = a b of bf16 tensors with sums of f32: tiles of a and b are widened into workspace, which so does not grow with
/// the problem, and each tile of y is rounded once. An element is one sequence of sums, which the shapes alone decide.
/// Where the problem comes in blocks of rows, `block` is their length, and the bits of a row do not depend on how many
/// there are; else 0. `problem`: no batch, nothing empty.
std::unique_ptr<Kernel> bf16_matmul_kernel(OneDnn& onednn, const MatmulProblem& problem, std::int64_t block,
                                           const Bf16Tiles& tiles = {});

}  // namespace sectionflow

#pragma once

#include <cstdint>
#include <memory>

#include "device/onednn.h"
#include "kernels/kernel.h"
#include "kernels/matmul_problem.h"

namespace sectionflow {

/// Elements of the tile of a matrix that serves block after block, while it is in the cache: 8 MiB.
inline constexpr std::int64_t kMatmulTileElements = std::int64_t{1} << 21;

/// y = a b in blocks of `block` rows of a and y, tile after tile of b. Each block is a product of its own, and tiles
/// are cut by the size of b alone: the bits of a row do not depend on how many blocks there are. `problem`: no batch, a
/// as it lies, whole blocks. Of bf16 the sums are f32; nullptr where oneDNN has no code for them.
std::unique_ptr<Kernel> blocked_rows_kernel(OneDnn& onednn, const MatmulProblem& problem, std::int64_t block,
                                            Dtype dtype = Dtype::f32, std::int64_t tile_elements = kMatmulTileElements);

/// y = a^T b as a sum over blocks of `block` rows of a and b, in their order, tile after tile of y; with `adds` they
/// are added to what y holds. An element of y is the same sequence of sums wherever a launch ends and the next goes on.
/// `problem`: no batch, a transposed and b as it lies, whole blocks of inner rows.
std::unique_ptr<Kernel> blocked_sum_kernel(OneDnn& onednn, const MatmulProblem& problem, std::int64_t block, bool adds,
                                           std::int64_t tile_elements = kMatmulTileElements);

}  // namespace sectionflow

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "graph/ops/global_norm.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/rows.h"
#include "kernels/formulas/global_norm.h"
#include "kernels/formulas/reduce.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

constexpr int kThreads = 256;
/// Elements of one tensor that a block adds up.
constexpr std::int64_t kPiece = 16384;

/// The sum of squares of one piece a block, for as many tensors as fit a launch: block b belongs to the last of them
/// whose first block is not beyond b.
struct SquaresOfPieces {
  static constexpr int kMost = 128;
  std::array<const float*, kMost> tensors;
  std::array<std::int64_t, kMost> counts;
  std::array<std::int32_t, kMost> first_blocks;
  int num_tensors;
  double* sums;  // one a block

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    int tensor = 0;
    for (int step = kMost / 2; step > 0; step /= 2) {
      if (tensor + step < num_tensors && first_blocks.data()[tensor + step] <= thread.block()) tensor += step;
    }
    const std::int64_t begin = (thread.block() - first_blocks.data()[tensor]) * kPiece;
    const std::int64_t rest = counts.data()[tensor] - begin;
    const float* x = tensors.data()[tensor] + begin;
    const auto square = [=](std::int64_t i) { return formulas::SquareReducer::term(x[i], 0); };
    const double sum = gpu::row_sum(thread, rest < kPiece ? rest : kPiece, 0, square);
    if (thread.index() == 0) sums[thread.block()] = sum;
  }
};

/// The root of the sum of all, by one block.
struct RootOfSums {
  const double* sums;
  std::int64_t count;
  float* y;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const double* terms = sums;
    const double squares = gpu::row_sum(thread, count, 0, [=](std::int64_t i) { return terms[i]; });
    if (thread.index() == 0) *y = static_cast<float>(std::sqrt(squares));
  }
};

std::unique_ptr<Kernel> make_global_norm(const KernelRequest& request) {
  std::vector<std::int64_t> counts;
  std::int64_t num_sums = 0;
  for (const TensorType& x : request.inputs) {
    counts.push_back(x.shape.num_elements());
    num_sums += (counts.back() + kPiece - 1) / kPiece;
  }
  return function_kernel(
      [counts, num_sums](const KernelArguments& arguments) {
        auto* sums = static_cast<double*>(arguments.workspace);
        std::int64_t done = 0;
        for (std::size_t next = 0; next < counts.size();) {
          SquaresOfPieces body{{}, {}, {}, 0, sums + done};
          std::int64_t blocks = 0;
          for (; next < counts.size() && body.num_tensors < SquaresOfPieces::kMost; ++next) {
            if (counts[next] == 0) continue;
            body.tensors[body.num_tensors] = static_cast<const float*>(arguments.inputs[next]);
            body.counts[body.num_tensors] = counts[next];
            body.first_blocks[body.num_tensors++] = static_cast<std::int32_t>(blocks);
            blocks += (counts[next] + kPiece - 1) / kPiece;
          }
          gpu::launch_blocks(arguments.queue,
                             {.blocks = blocks, .threads = kThreads, .shared_bytes = gpu::reduce_bytes<double>()},
                             body);
          done += blocks;
        }
        gpu::launch_blocks(arguments.queue,
                           {.blocks = 1, .threads = kThreads, .shared_bytes = gpu::reduce_bytes<double>()},
                           RootOfSums{sums, num_sums, static_cast<float*>(arguments.outputs[0])});
      },
      {.workspace_bytes = static_cast<std::size_t>(num_sums) * sizeof(double)});
}

std::unique_ptr<Kernel> make_global_norm_grad(const KernelRequest&) {
  return function_kernel([](const KernelArguments& arguments) {
    gpu::launch_map<float, float, float>(arguments.queue, 1, formulas::GlobalNormGrad(), arguments.outputs[0],
                                         {arguments.inputs[0], arguments.inputs[1]});
  });
}

std::unique_ptr<Kernel> make_clip_scale(const KernelRequest& request) {
  const formulas::ClipScale scale{request.node.options<ClipScaleOptions>().max_norm};
  return function_kernel([scale](const KernelArguments& arguments) {
    gpu::launch_map<float, float>(arguments.queue, 1, scale, arguments.outputs[0], {arguments.inputs[0]});
  });
}

}  // namespace

void add_global_norm_cuda_kernels(KernelRegistry& registry) {
  registry.add("global_norm", make_global_norm);
  registry.add("global_norm_grad", make_global_norm_grad);
  registry.add("clip_scale", make_clip_scale);
}

}  // namespace sectionflow

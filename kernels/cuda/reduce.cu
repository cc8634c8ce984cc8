#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "graph/nodes/reduce.h"
#include "graph/ops/reduce.h"
#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/broadcast.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/fixed_order_reduce.h"
#include "kernels/formulas/reduce.h"
#include "kernels/function_kernel.h"
#include "kernels/reduce_axes.h"

namespace sectionflow {
namespace {

/// Of the reducer of maxima or minima.
template <class T, class Reducer>
std::unique_ptr<Kernel> make_choice(const gpu::ReducePlan& plan) {
  return function_kernel(
      [plan](const KernelArguments& arguments) {
        plan.run(arguments.queue, static_cast<const T*>(arguments.inputs[0]), arguments.workspace, Reducer(),
                 gpu::StoreTotal<T>{static_cast<T*>(arguments.outputs[0])});
      },
      {.workspace_bytes = plan.workspace_bytes<Reducer>()});
}

std::unique_ptr<Kernel> make_stored_reduce(const KernelRequest& request) {
  return with_stored_type(request.outputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    return make_reduce<gpu::ReducePlan, gpu::sum_kernel_of<T>, make_choice<T, formulas::MaxReducer>,
                       make_choice<T, formulas::MinReducer>>(request);
  });
}

std::unique_ptr<Kernel> make_reduce_grad(const KernelRequest& request) {
  const Shape& x = request.inputs[1].shape;
  const std::vector<bool> reduced = reduced_axes_of(request, x);
  const bool is_mean = request.node.options<ReduceNodeOptions>().reduction == Reduction::mean;
  const float divisor = is_mean ? static_cast<float>(gpu::ReducePlan(x, reduced).num_reduced()) : 1.0F;
  return with_stored_type(request.outputs[0].dtype, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    const gpu::Broadcast<T, T> repeated(x, {kept_strides(x, reduced)});
    return function_kernel([repeated, divisor](const KernelArguments& arguments) {
      repeated.launch(arguments.queue, OfStored<T, formulas::DivideBy>{{divisor}}, arguments.outputs[0],
                      {arguments.inputs[0]});
    });
  });
}

/// shares[result] = dy / how many elements are the maximum.
template <class T>
struct StoreShare {
  const T* dy;
  float* shares;
  SF_HOST_DEVICE void operator()(std::int64_t result, double count) const {
    shares[result] = static_cast<float>(static_cast<float>(dy[result]) / count);
  }
};

template <class T>
std::unique_ptr<Kernel> make_reduce_max_grad_of(const KernelRequest& request) {
  using Reducer = formulas::ChosenReducer<T>;
  const Shape& x = request.inputs[1].shape;
  const std::vector<bool> reduced = reduced_axes_of(request, x);
  const std::vector<std::int64_t> dense = kept_strides(x, std::vector<bool>(reduced.size(), false));
  const std::vector<std::int64_t> kept = kept_strides(x, reduced);
  const gpu::ReducePlan plan(x, reduced);
  const gpu::Broadcast<T, T, T, float> give(x, {dense, kept, kept});
  const std::size_t partial_bytes = round_up(plan.workspace_bytes<Reducer>(), kBufferAlignment);
  const std::size_t share_bytes = static_cast<std::size_t>(plan.num_results()) * sizeof(float);
  return function_kernel(
      [=](const KernelArguments& arguments) {
        const auto* dy = static_cast<const T*>(arguments.inputs[0]);
        const auto* y = static_cast<const T*>(arguments.inputs[2]);
        auto* shares = reinterpret_cast<float*>(static_cast<std::byte*>(arguments.workspace) + partial_bytes);
        plan.run(arguments.queue, static_cast<const T*>(arguments.inputs[1]), arguments.workspace, Reducer{y},
                 StoreShare<T>{dy, shares});
        give.launch(arguments.queue, OfStored<T, formulas::ShareOfChosen>(), arguments.outputs[0],
                    {arguments.inputs[1], y, shares});
      },
      {.workspace_bytes = partial_bytes + share_bytes, .in_place = {{1, 0}}});
}

std::unique_ptr<Kernel> make_reduce_max_grad(const KernelRequest& request) {
  return with_stored_type(request.outputs[0].dtype,
                          [&](auto element) { return make_reduce_max_grad_of<decltype(element)>(request); });
}

constexpr int kNormThreads = 256;
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
                             {.blocks = blocks, .threads = kNormThreads, .shared_bytes = gpu::reduce_bytes<double>()},
                             body);
          done += blocks;
        }
        gpu::launch_blocks(arguments.queue,
                           {.blocks = 1, .threads = kNormThreads, .shared_bytes = gpu::reduce_bytes<double>()},
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

void add_reduce_cuda_kernels(KernelRegistry& registry) {
  registry.add("reduce", make_stored_reduce, Bf16::native);
  registry.add("reduce_grad", make_reduce_grad, Bf16::native);
  registry.add("reduce_max_grad", make_reduce_max_grad, Bf16::native);
  registry.add("global_norm", make_global_norm);
  registry.add("global_norm_grad", make_global_norm_grad);
  registry.add("clip_scale", make_clip_scale);
}

}  // namespace sectionflow

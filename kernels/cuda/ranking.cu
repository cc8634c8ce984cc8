#include <cstdint>

#include "graph/nodes/ranking.h"
#include "graph/ops/ranking.h"
#include "kernels/convert_element.h"
#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/positions.h"
#include "kernels/formulas/indexing.h"
#include "kernels/formulas/ranking.h"
#include "kernels/function_kernel.h"
#include "kernels/stored_element.h"

namespace sectionflow {
namespace {

constexpr int kRankingThreads = 256;

/// A row a block. The k-th largest rank is found bit by bit, from the highest on, by counting how many reach it; then
/// those that do are listed and go to their places. All ranks of a row differ, so that there are k of them.
template <class T>
struct LargestOfRow {
  const T* x;             // [N, C]
  T* values;              // [N, k]
  std::int32_t* indices;  // [N, k]
  std::uint64_t* chosen;  // [N, k]: ranks, in no order
  std::int64_t columns, k;

  static constexpr std::size_t kCountsAt = gpu::reduce_bytes<std::int64_t>();
  static constexpr std::size_t kSharedBytes = kCountsAt + kRankingThreads * sizeof(std::int32_t);

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const T* row = x + thread.block() * columns;
    std::uint64_t* ranks = chosen + thread.block() * k;
    list(thread, row, least_rank(thread, row), ranks);
    thread.barrier();
    for (std::int64_t i = thread.index(); i < k; i += thread.block_size()) {
      const std::uint64_t own = ranks[i];
      std::int64_t place = thread.block() * k;
      for (std::int64_t other = 0; other < k; ++other) place += ranks[other] > own ? 1 : 0;
      indices[place] = formulas::index_of_rank(own);
      values[place] = row[formulas::index_of_rank(own)];
    }
  }

  /// A rank that k elements of the row have, or exceed.
  template <class Thread>
  SF_HOST_DEVICE std::uint64_t least_rank(Thread& thread, const T* row) const {
    std::uint64_t least = 0;
    std::int64_t total = 0;
    for (int bit = 63; bit >= 0 && total != k; --bit) {
      const std::uint64_t tried = least | (std::uint64_t{1} << bit);
      std::int64_t reaching = 0;
      for (std::int64_t c = thread.index(); c < columns; c += thread.block_size()) {
        reaching += formulas::rank_of(row[c], c) >= tried ? 1 : 0;
      }
      total = gpu::block_reduce(thread, reaching, 0, gpu::Sum());
      thread.barrier();
      if (total >= k) least = tried;
    }
    return least;
  }

  /// ranks = those that reach `least`: of each thread's elements, after those of the threads before it.
  template <class Thread>
  SF_HOST_DEVICE void list(Thread& thread, const T* row, std::uint64_t least, std::uint64_t* ranks) const {
    auto counts = thread.template shared<std::int32_t>(kCountsAt, kRankingThreads);
    std::int32_t own = 0;
    for (std::int64_t c = thread.index(); c < columns; c += thread.block_size()) {
      own += formulas::rank_of(row[c], c) >= least ? 1 : 0;
    }
    counts[thread.index()] = own;
    thread.barrier();
    std::int64_t place = 0;
    for (int before = 0; before < thread.index(); ++before) {
      const std::int32_t count = counts[before];
      place += count;
    }
    for (std::int64_t c = thread.index(); c < columns; c += thread.block_size()) {
      const std::uint64_t rank = formulas::rank_of(row[c], c);
      if (rank >= least) ranks[place++] = rank;
    }
  }
};

std::unique_ptr<Kernel> make_top_k(const KernelRequest& request) {
  const std::int64_t columns = request.inputs[0].shape[-1], k = request.outputs[0].shape[-1];
  const std::int64_t count = request.outputs[0].shape.num_elements();
  return with_stored_type(request.inputs[0].dtype, [=](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel(
        [=](const KernelArguments& arguments) {
          gpu::launch_blocks(
              arguments.queue,
              {.blocks = count / k, .threads = kRankingThreads, .shared_bytes = LargestOfRow<T>::kSharedBytes},
              LargestOfRow<T>{static_cast<const T*>(arguments.inputs[0]), static_cast<T*>(arguments.outputs[0]),
                              static_cast<std::int32_t*>(arguments.outputs[1]),
                              static_cast<std::uint64_t*>(arguments.workspace), columns, k});
        },
        {.workspace_bytes = static_cast<std::size_t>(count) * sizeof(std::uint64_t)});
  });
}

/// y[n, j] = x[n, indices[n, j]].
template <class T, class Index>
struct TakeAlong {
  const T* x;            // [N, C]
  const Index* indices;  // [N, K]
  T* y;                  // [N, K]
  gpu::Divisor count;    // K
  std::int64_t columns;  // C
  T missing;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    const auto index = static_cast<std::int64_t>(indices[i]);
    y[i] = index >= 0 && index < columns ? x[count.quotient(i) * columns + index] : missing;
  }
};

template <class T, class Index>
std::unique_ptr<Kernel> make_take_along_of(const KernelRequest& request) {
  const std::int64_t columns = request.inputs[0].shape[-1];
  const TensorType& taken = request.outputs[0];
  const bool is_zero = request.node.options<TakeAlongOptions>().missing_is_zero;
  return function_kernel([=, count = taken.shape.num_elements(), row = gpu::Divisor(taken.shape[-1]),
                          missing = is_zero ? T{} : formulas::missing_element<T>()](const KernelArguments& arguments) {
    gpu::launch_each(
        arguments.queue, count,
        TakeAlong<T, Index>{static_cast<const T*>(arguments.inputs[0]), static_cast<const Index*>(arguments.inputs[1]),
                            static_cast<T*>(arguments.outputs[0]), row, columns, missing});
  });
}

std::unique_ptr<Kernel> make_take_along(const KernelRequest& request) {
  return with_element_type(request.inputs[0].dtype, [&](auto element) {
    return with_index_type(request.inputs[1].dtype,
                           [&](auto index) { return make_take_along_of<decltype(element), decltype(index)>(request); });
  });
}

template <class T>
struct FillWithZeros {
  T* y;
  SF_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = T{}; }
};

/// The first of the indices of a row that name an element adds up what dy has for it, in their order: k comparisons an
/// index.
template <class T, class Index>
struct AddAlong {
  const T* dy;           // [N, K]
  const Index* indices;  // [N, K]
  T* dx;                 // [N, C], zeros
  gpu::Divisor count;    // K
  std::int64_t columns;  // C

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = count.quotient(i), begin = row * count.divisor(), end = begin + count.divisor();
    const Index index = indices[i];
    if (index < 0 || static_cast<std::int64_t>(index) >= columns) return;
    for (std::int64_t j = begin; j < i; ++j) {
      if (indices[j] == index) return;
    }
    float sum = 0;
    for (std::int64_t j = i; j < end; ++j) {
      if (indices[j] == index) sum += static_cast<float>(dy[j]);
    }
    dx[row * columns + static_cast<std::int64_t>(index)] = stored<T>(sum);
  }
};

template <class Index>
std::unique_ptr<Kernel> make_take_along_grad_of(const KernelRequest& request) {
  const Shape &indices = request.inputs[1].shape, &dx = request.outputs[0].shape;
  return with_stored_type(request.outputs[0].dtype, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel([count = indices.num_elements(), row = gpu::Divisor(indices[-1]), columns = dx[-1],
                            num_elements = dx.num_elements()](const KernelArguments& arguments) {
      T* to = static_cast<T*>(arguments.outputs[0]);
      gpu::launch_each(arguments.queue, num_elements, FillWithZeros<T>{to});
      gpu::launch_each(arguments.queue, count,
                       AddAlong<T, Index>{static_cast<const T*>(arguments.inputs[0]),
                                          static_cast<const Index*>(arguments.inputs[1]), to, row, columns});
    });
  });
}

std::unique_ptr<Kernel> make_take_along_grad(const KernelRequest& request) {
  return with_index_type(request.inputs[1].dtype,
                         [&](auto index) { return make_take_along_grad_of<decltype(index)>(request); });
}

}  // namespace

void add_ranking_cuda_kernels(KernelRegistry& registry) {
  registry.add("top_k", make_top_k, Bf16::native);
  registry.add("take_along", make_take_along, Bf16::native);
  registry.add("take_along_grad", make_take_along_grad, Bf16::native);
}

}  // namespace sectionflow

#include "graph/ops/ranking.h"

#include <algorithm>
#include <cstdint>
#include <functional>

#include "device/parallel.h"
#include "graph/nodes/ranking.h"
#include "kernels/convert_element.h"
#include "kernels/formulas/indexing.h"
#include "kernels/formulas/ranking.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/stored_element.h"

namespace sectionflow {
namespace {

/// The largest elements of rows of `columns`. A row is gone through once: what exceeds the least of the k largest that
/// are known so far joins the candidates, and when these are full, all but the k largest go. Few join in a row of no
/// order; of an ascending one all do, for a few comparisons each.
class LargestOfRows {
 public:
  LargestOfRows(std::int64_t columns, std::int64_t k)
      : columns_(columns), k_(k), capacity_(std::min(columns, k + std::max(k, 2 * kBlock))) {}

  std::int64_t num_candidates() const { return capacity_; }

  template <class T>
  void find(const T* x, std::uint64_t* candidates, T* values, std::int32_t* indices) const {
    for (std::int64_t c = 0; c < capacity_; ++c) candidates[c] = formulas::rank_of(x[c], c);
    std::int64_t count = capacity_, next = capacity_;
    for (;;) {
      std::nth_element(candidates, candidates + (k_ - 1), candidates + count, std::greater<>());
      count = k_;
      const float least = x[formulas::index_of_rank(candidates[k_ - 1])];
      if (next == columns_ || least != least) break;  // behind k of NaN nothing is larger
      next = collect(x, next, least, candidates, count);
    }
    std::sort(candidates, candidates + k_, std::greater<>());
    for (std::int64_t i = 0; i < k_; ++i) {
      indices[i] = formulas::index_of_rank(candidates[i]);
      values[i] = x[indices[i]];
    }
  }

 private:
  static constexpr std::int64_t kBlock = 64;

  /// Adds the candidates from place `next` on that exceed `least`, as long as there is room for a block of them; a NaN
  /// exceeds every number. Gives the place where it ended.
  template <class T>
  std::int64_t collect(const T* x, std::int64_t next, float least, std::uint64_t* candidates,
                       std::int64_t& count) const {
    while (next < columns_ && count + kBlock <= capacity_) {
      const std::int64_t end = std::min(columns_, next + kBlock);
      int exceeding = 0;
#pragma omp simd reduction(+ : exceeding)
      for (std::int64_t c = next; c < end; ++c) exceeding += !(static_cast<float>(x[c]) <= least) ? 1 : 0;
      for (std::int64_t c = next; exceeding > 0 && c < end; ++c) {
        if (!(static_cast<float>(x[c]) <= least)) candidates[count++] = formulas::rank_of(x[c], c);
      }
      next = end;
    }
    return next;
  }

  std::int64_t columns_, k_, capacity_;
};

template <class T>
std::unique_ptr<Kernel> make_top_k_of(const KernelRequest& request) {
  // Rows share room for candidates, in stretches that may be worked on side by side.
  constexpr std::int64_t kStretches = 64;
  const Shape& x_shape = request.inputs[0].shape;
  const std::int64_t k = request.outputs[0].shape[-1], columns = x_shape[-1];
  const std::int64_t num_rows = request.outputs[0].shape.num_elements() / k;
  const std::int64_t stretches = std::min(num_rows, kStretches);
  const LargestOfRows largest(columns, k);
  const std::size_t bytes = static_cast<std::size_t>(stretches * largest.num_candidates()) * sizeof(std::uint64_t);
  return function_kernel(
      [=](const KernelArguments& arguments) {
        const T* x = static_cast<const T*>(arguments.inputs[0]);                   // [N, C]
        T* values = static_cast<T*>(arguments.outputs[0]);                         // [N, k]
        std::int32_t* indices = static_cast<std::int32_t*>(arguments.outputs[1]);  // [N, k]
        std::uint64_t* candidates = static_cast<std::uint64_t*>(arguments.workspace);
        const std::int64_t work = num_rows * columns / std::max<std::int64_t>(1, stretches);
        const std::int64_t grain = std::max<std::int64_t>(1, kParallelGrain / std::max<std::int64_t>(1, work));
        parallel_for(stretches, grain, [=](std::int64_t begin, std::int64_t end) {
          for (std::int64_t stretch = begin; stretch < end; ++stretch) {
            const std::int64_t end_row = num_rows * (stretch + 1) / stretches;
            for (std::int64_t row = num_rows * stretch / stretches; row < end_row; ++row) {
              largest.find(x + row * columns, candidates + stretch * largest.num_candidates(), values + row * k,
                           indices + row * k);
            }
          }
        });
      },
      {.workspace_bytes = bytes});
}

std::unique_ptr<Kernel> make_top_k(const KernelRequest& request) {
  return with_stored_type(request.inputs[0].dtype,
                          [&](auto element) { return make_top_k_of<decltype(element)>(request); });
}

/// `row(n)` for each row of both, of `work` elements together.
template <class Row>
void for_each_taken_row(std::int64_t num_rows, std::int64_t work, const Row& row) {
  parallel_for(num_rows, std::max<std::int64_t>(1, kParallelGrain / std::max<std::int64_t>(1, work)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t n = begin; n < end; ++n) row(n);
               });
}

/// How many rows of so many elements a tensor [..., length] has.
std::int64_t rows_of(const Shape& shape) {
  std::int64_t rows = 1;
  for (int i = 0; i + 1 < shape.rank(); ++i) rows *= shape[i];
  return rows;
}

template <class T, class Index>
std::unique_ptr<Kernel> make_take_along_of(const KernelRequest& request) {
  const std::int64_t columns = request.inputs[0].shape[-1], count = request.inputs[1].shape[-1];
  const std::int64_t num_rows = rows_of(request.outputs[0].shape);
  const bool is_zero = request.node.options<TakeAlongOptions>().missing_is_zero;
  return function_kernel(
      [=, missing = is_zero ? T{} : formulas::missing_element<T>()](const KernelArguments& arguments) {
        const T* x = static_cast<const T*>(arguments.inputs[0]);                // [N, C]
        const Index* indices = static_cast<const Index*>(arguments.inputs[1]);  // [N, K]
        T* y = static_cast<T*>(arguments.outputs[0]);                           // [N, K]
        for_each_taken_row(num_rows, count, [=](std::int64_t n) {
          for (std::int64_t j = n * count; j < (n + 1) * count; ++j) {
            const auto index = static_cast<std::int64_t>(indices[j]);
            y[j] = index >= 0 && index < columns ? x[n * columns + index] : missing;
          }
        });
      });
}

std::unique_ptr<Kernel> make_take_along(const KernelRequest& request) {
  return with_element_type(request.inputs[0].dtype, [&](auto element) {
    return with_index_type(request.inputs[1].dtype,
                           [&](auto index) { return make_take_along_of<decltype(element), decltype(index)>(request); });
  });
}

template <class Index>
std::unique_ptr<Kernel> make_take_along_grad_of(const KernelRequest& request) {
  const std::int64_t columns = request.outputs[0].shape[-1], count = request.inputs[1].shape[-1];
  const std::int64_t num_rows = rows_of(request.outputs[0].shape);
  return function_kernel([=](const KernelArguments& arguments) {
    const float* dy = static_cast<const float*>(arguments.inputs[0]);       // [N, K]
    const Index* indices = static_cast<const Index*>(arguments.inputs[1]);  // [N, K]
    float* dx = static_cast<float*>(arguments.outputs[0]);                  // [N, C]
    for_each_taken_row(num_rows, columns + count, [=](std::int64_t n) {
      float* row = dx + n * columns;
      std::fill_n(row, columns, 0.0F);
      for (std::int64_t j = n * count; j < (n + 1) * count; ++j) {
        const auto index = static_cast<std::int64_t>(indices[j]);
        if (index >= 0 && index < columns) row[index] += dy[j];
      }
    });
  });
}

// Of bf16 the registry gives it copies in f32: sums of what repeats are rounded once.
std::unique_ptr<Kernel> make_take_along_grad(const KernelRequest& request) {
  return with_index_type(request.inputs[1].dtype,
                         [&](auto index) { return make_take_along_grad_of<decltype(index)>(request); });
}

}  // namespace

void add_ranking_cpu_kernels(KernelRegistry& registry) {
  registry.add("top_k", make_top_k, Bf16::native);
  registry.add("take_along", make_take_along, Bf16::native);
  registry.add("take_along_grad", make_take_along_grad);
}

}  // namespace sectionflow

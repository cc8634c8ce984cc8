#include "graph/ops/indexing.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "device/parallel.h"
#include "graph/nodes/indexing.h"
#include "kernels/cpu/combined_rows.h"
#include "kernels/cpu/copies.h"
#include "kernels/cpu/lines_ahead.h"
#include "kernels/cpu/wide_vectors.h"
#include "kernels/formulas/ranking.h"
#include "kernels/function_kernel.h"
#include "kernels/gather_family.h"
#include "kernels/kernel_registry.h"
#include "kernels/stored_element.h"
#include "kernels/vector_math.h"

namespace sectionflow {
namespace {

/// The kernels as loops over indices.
struct LoopGathers : LoopRows {
  template <class T, class Index>
  static std::unique_ptr<Kernel> gather(const KernelRequest& request, T missing) {
    const GatherTable table(request.inputs[0].shape);
    const std::int64_t count = request.inputs[1].shape.num_elements();
    return function_kernel([=](const KernelArguments& arguments) {
      const T* rows = static_cast<const T*>(arguments.inputs[0]);             // [V, C]
      const Index* indices = static_cast<const Index*>(arguments.inputs[1]);  // [N]
      T* y = static_cast<T*>(arguments.outputs[0]);                           // [N, C]
      const std::int64_t length = table.row_length,
                         grain = std::max<std::int64_t>(1, kParallelGrain / std::max<std::int64_t>(1, length));
      const std::size_t row_bytes = static_cast<std::size_t>(length) * sizeof(T);
      const bool goes_past = PastCaches::pays(static_cast<std::size_t>(count) * row_bytes);
      // Where the next rows lie, indices alone tell.
      const std::int64_t ahead = 1 + 4 * kBytesAhead / static_cast<std::int64_t>(std::max<std::size_t>(1, row_bytes));
      const auto row_of = [=](std::int64_t n) {
        const auto index = static_cast<std::int64_t>(indices[n]);
        return index >= 0 && index < table.num_rows ? rows + index * length : nullptr;
      };
      parallel_for(count, grain, [=](std::int64_t begin, std::int64_t end) {
        const PastCaches past;
        for (std::int64_t n = begin; n < end; ++n) {
          T* to = y + n * length;
          const T* row = row_of(n);
          const T* later = goes_past && n + ahead < end ? row_of(n + ahead) : nullptr;
          if (later != nullptr) ask_for_lines<CacheLevel::second>(later, length);
          if (row == nullptr) {
            std::fill_n(to, length, missing);
          } else if (goes_past) {
            past.copy(to, row, row_bytes);
          } else {
            std::copy_n(row, length, to);
          }
        }
      });
    });
  }
};

std::unique_ptr<Kernel> make_one_hot(const KernelRequest& request) {
  const std::int64_t count = request.inputs[0].shape.num_elements();
  const auto options = request.node.options<OneHotOptions>();
  return with_index_type(request.inputs[0].dtype, [=](auto of) -> std::unique_ptr<Kernel> {
    return function_kernel([=](const KernelArguments& arguments) {
      const auto* indices = static_cast<const decltype(of)*>(arguments.inputs[0]);  // [N]
      float* y = static_cast<float*>(arguments.outputs[0]);                         // [N, depth]
      const std::int64_t depth = options.depth;
      parallel_for(count, std::max<std::int64_t>(1, kParallelGrain / depth), [=](std::int64_t begin, std::int64_t end) {
        std::fill(y + begin * depth, y + end * depth, options.off_value);
        for (std::int64_t n = begin; n < end; ++n) {
          const auto index = static_cast<std::int64_t>(indices[n]);
          if (index >= 0 && index < depth) y[n * depth + index] = options.on_value;
        }
      });
    });
  });
}

/// Of the largest of x[0, count), the first; a NaN is larger than any number.
template <class T>
std::int32_t argmax_of_few(const T* x, std::int32_t count) {
  std::int32_t at = 0;
  float largest = x[0];
  for (std::int32_t c = 1; c < count; ++c) {
    const float value = x[c];
    // "Not <=" holds for a NaN too; from then on nothing is larger.
    if (!(value <= largest) && largest == largest) {
      largest = value;
      at = c;
    }
  }
  return at;
}

/// The same in lanes, which pays from kFew on.
constexpr std::int32_t kFew = 16;

template <class T>
std::int32_t argmax_of_row(const T* x, std::int32_t count) {
  constexpr std::int32_t kLanes = 32;
  float largest[kLanes];
  std::int32_t at[kLanes];
  const auto begin = [&](std::int32_t lanes) {
    for (std::int32_t lane = 0; lane < lanes; ++lane) {
      largest[lane] = x[lane];
      at[lane] = lane;
    }
  };
  // By bits: a branch would not vectorise.
  const auto take = [&](std::int32_t lane, float value, std::int32_t c) {
    const bool is_larger = !(value <= largest[lane]) & (largest[lane] == largest[lane]);
    largest[lane] = vector_math::select(is_larger, value, largest[lane]);
    at[lane] = vector_math::select(is_larger, c, at[lane]);
  };
  const std::int32_t lanes = std::min(kLanes, count);
  begin(lanes);
  std::int32_t c = lanes;
  for (; count - c >= kLanes; c += kLanes) {
#pragma omp simd
    for (std::int32_t lane = 0; lane < kLanes; ++lane) take(lane, x[c + lane], c + lane);
  }
  for (std::int32_t lane = 0; c < count; ++lane, ++c) take(lane, x[c], c);
  // The first of the largest, where a NaN is larger than any number.
  std::uint64_t best = 0;
  for (std::int32_t lane = 0; lane < lanes; ++lane) best = std::max(best, formulas::rank_of(largest[lane], at[lane]));
  return formulas::index_of_rank(best);
}

/// x is stored as T.
template <class T>
std::unique_ptr<Kernel> make_argmax_of(const KernelRequest& request) {
  const std::int64_t num_rows = request.outputs[0].shape.num_elements();
  const auto num_classes = static_cast<std::int32_t>(request.inputs[0].shape[-1]);
  return function_kernel([=](const KernelArguments& arguments) {
    const T* x = static_cast<const T*>(arguments.inputs[0]);             // [N, C]
    std::int32_t* y = static_cast<std::int32_t*>(arguments.outputs[0]);  // [N]
    const std::int64_t grain = std::max<std::int64_t>(1, kParallelGrain / num_classes);
    parallel_for(num_rows, grain, [=](std::int64_t begin, std::int64_t end) {
      if (num_classes < kFew) {
        for (std::int64_t n = begin; n < end; ++n) y[n] = argmax_of_few(x + n * num_classes, num_classes);
        return;
      }
      in_wide_vectors([=] {
        for (std::int64_t n = begin; n < end; ++n) y[n] = argmax_of_row(x + n * num_classes, num_classes);
      });
    });
  });
}

std::unique_ptr<Kernel> make_argmax(const KernelRequest& request) {
  return with_stored_type(request.inputs[0].dtype,
                          [&](auto element) { return make_argmax_of<decltype(element)>(request); });
}

}  // namespace

void add_indexing_cpu_kernels(KernelRegistry& registry) {
  GatherFamily<LoopGathers>::add_to(registry);
  registry.add("one_hot", make_one_hot);
  registry.add("argmax", make_argmax, Bf16::native);
}

}  // namespace sectionflow

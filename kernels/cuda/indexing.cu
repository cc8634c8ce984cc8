#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "graph/nodes/indexing.h"
#include "graph/ops/indexing.h"
#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/combined_rows.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/positions.h"
#include "kernels/formulas/ranking.h"
#include "kernels/function_kernel.h"
#include "kernels/gather_family.h"

namespace sectionflow {
namespace {

/// What a thread moves at once where rows are made of such: 16 bytes. Else it moves an element.
struct alignas(16) LongWord {
  std::uint32_t parts[4];
};
template <class T>
using WordLike = std::conditional_t<
    sizeof(T) == 8, std::uint64_t,
    std::conditional_t<sizeof(T) == 4, std::uint32_t, std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;

/// y[n] = rows[indices[n]], word by word.
template <class Word, class Index>
struct TakeRows {
  const Word* rows;
  const Index* indices;
  Word* y;
  std::int64_t num_rows, words_a_row;
  bool is_small;
  Word missing;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    const gpu::RowAndColumn at(i, words_a_row, is_small);
    const auto index = static_cast<std::int64_t>(indices[at.row]);
    y[i] = index >= 0 && index < num_rows ? rows[index * words_a_row + at.column] : missing;
  }
};

template <class T, class Word, class Index>
std::unique_ptr<Kernel> make_gather_by(const KernelRequest& request, T missing_element) {
  const GatherTable table(request.inputs[0].shape);
  const std::int64_t words = table.row_length * static_cast<std::int64_t>(sizeof(T)) / sizeof(Word);
  const std::int64_t count = request.inputs[1].shape.num_elements() * words;
  Word missing{};
  for (std::size_t at = 0; at < sizeof(Word); at += sizeof(T)) {
    std::memcpy(reinterpret_cast<unsigned char*>(&missing) + at, &missing_element, sizeof(T));
  }
  return function_kernel([=](const KernelArguments& arguments) {
    gpu::launch_each(
        arguments.queue, count,
        TakeRows<Word, Index>{static_cast<const Word*>(arguments.inputs[0]),
                              static_cast<const Index*>(arguments.inputs[1]), static_cast<Word*>(arguments.outputs[0]),
                              table.num_rows, words, gpu::is_small(count), missing});
  });
}

/// The kernels as words that threads move, and as sums of rows that are sorted by index.
struct SortedGathers : gpu::SortedRows {
  template <class T, class Index>
  static std::unique_ptr<Kernel> gather(const KernelRequest& request, T missing) {
    const std::int64_t row_bytes =
        GatherTable(request.inputs[0].shape).row_length * static_cast<std::int64_t>(sizeof(T));
    static_assert(sizeof(T) == sizeof(WordLike<T>));
    if (row_bytes % static_cast<std::int64_t>(sizeof(LongWord)) == 0)
      return make_gather_by<T, LongWord, Index>(request, missing);
    return make_gather_by<T, WordLike<T>, Index>(request, missing);
  }
};

template <class Index>
struct OneHot {
  const Index* indices;  // [N]
  float* y;              // [N, depth]
  gpu::Divisor depth;
  float on_value, off_value;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t row = i;
    const std::int64_t column = depth.cut(row);
    y[i] = static_cast<std::int64_t>(indices[row]) == column ? on_value : off_value;
  }
};

std::unique_ptr<Kernel> make_one_hot(const KernelRequest& request) {
  const std::int64_t count = request.outputs[0].shape.num_elements();
  const auto options = request.node.options<OneHotOptions>();
  return with_index_type(request.inputs[0].dtype, [=](auto index) -> std::unique_ptr<Kernel> {
    using Index = decltype(index);
    return function_kernel([=](const KernelArguments& arguments) {
      gpu::launch_each(
          arguments.queue, count,
          OneHot<Index>{static_cast<const Index*>(arguments.inputs[0]), static_cast<float*>(arguments.outputs[0]),
                        gpu::Divisor(options.depth), options.on_value, options.off_value});
    });
  });
}

/// A group of threads a row.
template <class T>
struct ArgmaxRows {
  const T* x;       // [N, C]
  std::int32_t* y;  // [N]
  std::int64_t num_rows, num_classes;
  int group;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const std::int64_t row = thread.block() * (thread.block_size() / group) + thread.index() / group;
    const int lane = thread.index() % group;
    std::uint64_t best = 0;
    for (std::int64_t c = lane; row < num_rows && c < num_classes; c += group) {
      best = gpu::Larger()(best, formulas::rank_of(x[row * num_classes + c], c));
    }
    best = gpu::group_reduce(thread, best, group, 0, gpu::Larger());
    if (lane == 0 && row < num_rows) {
      y[row] = formulas::index_of_rank(best);
    }
  }
};

std::unique_ptr<Kernel> make_argmax(const KernelRequest& request) {
  constexpr int kThreads = 256;
  const std::int64_t num_rows = request.outputs[0].shape.num_elements();
  const std::int64_t num_classes = request.inputs[0].shape[-1];
  const int group = gpu::group_for(num_classes, kThreads);
  return with_stored_type(request.inputs[0].dtype, [=](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel([=](const KernelArguments& arguments) {
      gpu::launch_blocks(arguments.queue,
                         {.blocks = gpu::blocks_for(num_rows, kThreads / group),
                          .threads = kThreads,
                          .shared_bytes = gpu::reduce_bytes<std::uint64_t>()},
                         ArgmaxRows<T>{static_cast<const T*>(arguments.inputs[0]),
                                       static_cast<std::int32_t*>(arguments.outputs[0]), num_rows, num_classes, group});
    });
  });
}

}  // namespace

void add_indexing_cuda_kernels(KernelRegistry& registry) {
  GatherFamily<SortedGathers>::add_to(registry);
  registry.add("one_hot", make_one_hot);
  registry.add("argmax", make_argmax, Bf16::native);
}

}  // namespace sectionflow

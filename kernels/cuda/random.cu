#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "graph/nodes/random.h"
#include "graph/ops/random.h"
#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"
#include "kernels/formulas/random.h"
#include "kernels/function_kernel.h"
#include "kernels/stored_element.h"
#include "kernels/vector_math.h"

namespace sectionflow {
namespace {

/// y = offset + scale draw(block), a block a thread; a tensor's last block may be used in part.
template <class Draw>
struct FillBlock {
  const RandomState* state;
  float* y;
  std::int64_t count;
  std::uint32_t ordinal;
  float offset, scale;

  SF_HOST_DEVICE void operator()(std::int64_t block) const {
    const RandomAddress address{state->seed, ordinal, static_cast<std::uint32_t>(state->cycle)};
    const formulas::Four drawn = Draw()(address, static_cast<std::uint64_t>(block));
    gpu::Pack<float, formulas::kRandomBlock> numbers;
    for (int i = 0; i < formulas::kRandomBlock; ++i) numbers.values[i] = offset + scale * drawn.values[i];
    const std::int64_t first = block * formulas::kRandomBlock;
    if (first + formulas::kRandomBlock <= count) {
      gpu::store_pack(y + first, numbers);
    } else {
      for (std::int64_t i = 0; first + i < count; ++i) y[first + i] = numbers.values[i];
    }
  }
};

template <class Draw>
std::unique_ptr<Kernel> make_random_of(const KernelRequest& request, float offset, float scale) {
  return function_kernel([=, count = request.outputs[0].shape.num_elements(),
                          ordinal = request.node.random_ordinal()](const KernelArguments& arguments) {
    gpu::launch_each(arguments.queue, (count + formulas::kRandomBlock - 1) / formulas::kRandomBlock,
                     FillBlock<Draw>{arguments.random_state, static_cast<float*>(arguments.outputs[0]), count, ordinal,
                                     offset, scale});
  });
}

/// By RandomOptions or RandomLikeOptions.
template <class Options>
std::unique_ptr<Kernel> make_random(const KernelRequest& request) {
  using formulas::DrawOfWords;
  const auto& options = request.node.options<Options>();
  switch (options.distribution) {
    case Distribution::normal:
      return make_random_of<formulas::DrawNormals>(request, options.a, options.b);
    case Distribution::truncated_normal:
      return make_random_of<formulas::DrawTruncatedNormals>(request, options.a, options.b);
    case Distribution::uniform:
      return make_random_of<DrawOfWords<formulas::UniformOfWord>>(request, options.a, options.b - options.a);
    case Distribution::gumbel:
      return make_random_of<DrawOfWords<formulas::GumbelOfWord>>(request, options.a, options.b);
  }
  return nullptr;
}

constexpr int kDrawThreads = 256;

/// A row a block, of which each thread sums a stretch of e^(x - max x). A draw is a thread's: it looks for the stretch,
/// and for the class in it.
template <class T>
struct DrawClasses {
  const RandomState* state;
  const T* x;       // [N, C]
  std::int32_t* y;  // [N, draws]
  std::int64_t num_classes, draws;
  std::uint32_t ordinal;

  static constexpr std::size_t kSumsAt = gpu::reduce_bytes<float>();
  static constexpr std::size_t kSharedBytes = kSumsAt + kDrawThreads * sizeof(double);

  SF_HOST_DEVICE std::int64_t begin_of(std::int64_t stretch) const { return num_classes * stretch / kDrawThreads; }

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const T* row = x + thread.block() * num_classes;
    float largest = -std::numeric_limits<float>::infinity();
    for (std::int64_t c = thread.index(); c < num_classes; c += kDrawThreads) {
      largest = gpu::Larger()(largest, static_cast<float>(row[c]));
    }
    largest = gpu::block_reduce(thread, largest, 0, gpu::Larger());
    auto sums = thread.template shared<double>(kSumsAt, kDrawThreads);
    double sum = 0;
    for (std::int64_t c = begin_of(thread.index()); c < begin_of(thread.index() + 1); ++c) {
      sum += static_cast<double>(vector_math::exp(static_cast<float>(row[c]) - largest));
    }
    sums[thread.index()] = sum;
    thread.barrier();
    double total = 0;
    for (int stretch = 0; stretch < kDrawThreads; ++stretch) {
      const double of_stretch = sums[stretch];
      total += of_stretch;
    }
    const bool is_distribution = std::isfinite(largest) && std::isfinite(total);
    const RandomAddress address{state->seed, ordinal, static_cast<std::uint32_t>(state->cycle)};
    for (std::int64_t draw = thread.index(); draw < draws; draw += kDrawThreads) {
      const std::int64_t i = thread.block() * draws + draw;
      const double target = formulas::uniform_of_draw(address, static_cast<std::uint64_t>(i)) * total;
      double before = 0;
      int stretch = 0;
      for (; stretch + 1 < kDrawThreads; ++stretch) {
        const double of_stretch = sums[stretch];
        if (before + of_stretch > target) break;
        before += of_stretch;
      }
      y[i] = is_distribution ? class_at(row, largest, stretch, before, target) : -1;
    }
  }

  /// The class of a stretch at which the sum, which is `sum` before it, exceeds `target`. Rounding may leave it short
  /// by the last digits: then the last class that can be.
  SF_HOST_DEVICE std::int32_t class_at(const T* row, float largest, int stretch, double sum, double target) const {
    std::int64_t drawn = -1;
    for (std::int64_t c = begin_of(stretch); c < begin_of(stretch + 1) && sum <= target; ++c) {
      const float probability = vector_math::exp(static_cast<float>(row[c]) - largest);
      if (probability > 0) drawn = c;
      sum += static_cast<double>(probability);
    }
    return static_cast<std::int32_t>(drawn);
  }
};

std::unique_ptr<Kernel> make_categorical(const KernelRequest& request) {
  const std::int64_t num_classes = request.inputs[0].shape[-1];
  const std::int64_t num_rows = request.inputs[0].shape.num_elements() / num_classes;
  const std::int64_t draws = std::max<std::int64_t>(1, request.node.options<CategoricalOptions>().draws);
  return with_stored_type(request.inputs[0].dtype, [=, &request](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel([=, ordinal = request.node.random_ordinal()](const KernelArguments& arguments) {
      gpu::launch_blocks(arguments.queue,
                         {.blocks = num_rows, .threads = kDrawThreads, .shared_bytes = DrawClasses<T>::kSharedBytes},
                         DrawClasses<T>{arguments.random_state, static_cast<const T*>(arguments.inputs[0]),
                                        static_cast<std::int32_t*>(arguments.outputs[0]), num_classes, draws, ordinal});
    });
  });
}

}  // namespace

void add_random_cuda_kernels(KernelRegistry& registry) {
  registry.add("random", make_random<RandomOptions>);
  registry.add("random_like", make_random<RandomLikeOptions>);
  registry.add("categorical", make_categorical, Bf16::native);
}

}  // namespace sectionflow

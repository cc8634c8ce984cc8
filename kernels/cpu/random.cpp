#include "graph/ops/random.h"

#include <algorithm>
#include <cmath>

#include "device/parallel.h"
#include "graph/nodes/random.h"
#include "kernels/cpu/random_words.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/wide_vectors.h"
#include "kernels/formulas/random.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/stored_element.h"
#include "kernels/vector_math.h"

namespace sectionflow {
namespace {

/// y = offset + scale draw(block), block by block; a tensor's last block may be used in part.
template <class Draw>
std::unique_ptr<Kernel> make_random_of(std::int64_t num_elements, float offset, float scale) {
  return function_kernel([=](const KernelArguments& arguments) {
    float* y = static_cast<float*>(arguments.outputs[0]);
    const RandomAddress address = arguments.random;
    constexpr std::int64_t kGrainBlocks = 256, kBlock = formulas::kRandomBlock;
    parallel_for((num_elements + kBlock - 1) / kBlock, kGrainBlocks, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        const formulas::Four numbers = Draw()(address, static_cast<std::uint64_t>(block));
        const std::int64_t count = std::min(kBlock, num_elements - block * kBlock);
        for (std::int64_t i = 0; i < count; ++i) y[block * kBlock + i] = offset + scale * numbers.values[i];
      }
    });
  });
}

/// The same of numbers that each are made of a word by itself, in vectors.
template <class OfWord>
std::unique_ptr<Kernel> make_random_by_word(std::int64_t num_elements, float offset, float scale) {
  return function_kernel([=](const KernelArguments& arguments) {
    float* y = static_cast<float*>(arguments.outputs[0]);
    const RandomAddress address = arguments.random;
    constexpr std::int64_t kStretchBlocks = 64, kStretch = kStretchBlocks * formulas::kRandomBlock;
    parallel_for((num_elements + kStretch - 1) / kStretch, 16, [=](std::int64_t begin, std::int64_t end) {
      const OfWord of_word;
      std::uint32_t words[kStretch];
      for (std::int64_t stretch = begin; stretch < end; ++stretch) {
        fill_random_words_in_vectors(address, static_cast<std::uint64_t>(stretch * kStretchBlocks), kStretchBlocks,
                                     words);
        float* to = y + stretch * kStretch;
        const std::int64_t count = std::min(kStretch, num_elements - stretch * kStretch);
        in_wide_vectors([=, &words] {
#pragma omp simd
          for (std::int64_t i = 0; i < count; ++i) to[i] = offset + scale * of_word(words[i]);
        });
      }
    });
  });
}

/// By RandomOptions or RandomLikeOptions.
template <class Options>
std::unique_ptr<Kernel> make_random(const KernelRequest& request) {
  const auto& options = request.node.options<Options>();
  const std::int64_t num_elements = request.outputs[0].shape.num_elements();
  switch (options.distribution) {
    case Distribution::normal:
      return make_random_of<formulas::DrawNormals>(num_elements, options.a, options.b);
    case Distribution::truncated_normal:
      return make_random_of<formulas::DrawTruncatedNormals>(num_elements, options.a, options.b);
    case Distribution::uniform:
      return make_random_by_word<formulas::UniformOfWord>(num_elements, options.a, options.b - options.a);
    case Distribution::gumbel:
      return make_random_by_word<formulas::GumbelOfWord>(num_elements, options.a, options.b);
  }
  return nullptr;
}

/// Draws by the sums of e^(x - max x) along rows: of pieces, then of a piece's elements.
template <class T>
class DrawOfRow {
 public:
  explicit DrawOfRow(std::int64_t num_classes) : num_classes_(num_classes) {}
  std::int64_t num_pieces() const { return (num_classes_ + kPiece - 1) / kPiece; }

  /// The largest element, and in `sums` those of the pieces up to each. Not finite, or a sum of NaN: no distribution.
  float sum_pieces(const T* x, double* sums) const {
    const float largest = row_max(x, num_classes_);
    double total = 0;
    for (std::int64_t first = 0; first < num_pieces(); first += kTogether) {
      float terms[kTogether * kPiece];
      (void)terms_of(x, largest, first, terms);
      const std::int64_t together = std::min(kTogether, num_pieces() - first);
      for (std::int64_t piece = 0; piece < together; ++piece) {
        total += static_cast<double>(sum_of(terms + piece * kPiece));
        sums[first + piece] = total;
      }
    }
    return largest;
  }

  /// The class within whose stretch of the sum `part` of the whole lies.
  std::int32_t draw(const T* x, float largest, const double* sums, double part) const {
    const std::int64_t last = num_pieces() - 1;
    const double total = sums[last], target = part * total;
    if (!std::isfinite(largest) || !std::isfinite(total)) return -1;
    const std::int64_t piece = std::upper_bound(sums, sums + last, target) - sums;
    float terms[kPiece];
    const std::int64_t count = terms_of(x, largest, piece, terms);
    double sum = piece > 0 ? sums[piece - 1] : 0;
    std::int64_t drawn = -1;
    for (std::int64_t i = 0; i < count && sum <= target; ++i) {
      if (terms[i] > 0) drawn = piece * kPiece + i;  // the last that can be, where this order of the sum comes to less
      sum += static_cast<double>(terms[i]);
    }
    return static_cast<std::int32_t>(drawn);
  }

 private:
  static constexpr std::int64_t kPiece = 64, kTogether = 16;

  /// terms = those of pieces from `piece` on, and zeros behind them to the end of the last piece. Gives how many they
  /// have.
  template <std::int64_t kTerms>
  std::int64_t terms_of(const T* x, float largest, std::int64_t piece, float (&terms)[kTerms]) const {
    const T* from = x + piece * kPiece;
    const std::int64_t count = std::min(kTerms, num_classes_ - piece * kPiece);
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) terms[i] = vector_math::exp(static_cast<float>(from[i]) - largest);
    std::fill(terms + count, terms + (count + kPiece - 1) / kPiece * kPiece, 0.0F);
    return count;
  }

  /// Of a piece's terms, half by half.
  static float sum_of(const float* terms) {
    float sums[kPiece / 2];
#pragma omp simd
    for (std::int64_t i = 0; i < kPiece / 2; ++i) sums[i] = terms[i] + terms[i + kPiece / 2];
    for (std::int64_t half = kPiece / 4; half > 0; half /= 2) {
#pragma omp simd
      for (std::int64_t i = 0; i < half; ++i) sums[i] += sums[i + half];
    }
    return sums[0];
  }

  std::int64_t num_classes_;
};

std::unique_ptr<Kernel> make_categorical(const KernelRequest& request) {
  const std::int64_t num_classes = request.inputs[0].shape[-1];
  const std::int64_t num_rows = request.inputs[0].shape.num_elements() / num_classes;
  const std::int64_t draws = std::max<std::int64_t>(1, request.node.options<CategoricalOptions>().draws);
  return with_stored_type(request.inputs[0].dtype, [=](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    const DrawOfRow<T> row(num_classes);
    return function_kernel(
        [=](const KernelArguments& arguments) {
          const T* x = static_cast<const T*>(arguments.inputs[0]);             // [N, C]
          std::int32_t* y = static_cast<std::int32_t*>(arguments.outputs[0]);  // [N, draws]
          double* sums = static_cast<double*>(arguments.workspace);            // [N, pieces]
          for_each_row(num_rows, num_classes, [&](std::int64_t n) {
            const T* logits = x + n * num_classes;
            double* of_row = sums + n * row.num_pieces();
            const float largest = row.sum_pieces(logits, of_row);
            for (std::int64_t i = n * draws; i < (n + 1) * draws; ++i) {
              const double part = formulas::uniform_of_draw(arguments.random, static_cast<std::uint64_t>(i));
              y[i] = row.draw(logits, largest, of_row, part);
            }
          });
        },
        {.workspace_bytes = static_cast<std::size_t>(num_rows * row.num_pieces()) * sizeof(double)});
  });
}

}  // namespace

void add_random_cpu_kernels(KernelRegistry& registry) {
  registry.add("random", make_random<RandomOptions>);
  registry.add("random_like", make_random<RandomLikeOptions>);
  registry.add("categorical", make_categorical, Bf16::native);
}

}  // namespace sectionflow

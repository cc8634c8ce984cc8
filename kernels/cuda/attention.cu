#include <cmath>
#include <limits>

#include "device/tf32.h"
#include "graph/ops/attention.h"
#include "kernels/attention_geometry.h"
#include "kernels/cuda/attention_tensor_core.h"
#include "kernels/cuda/attention_tensor_core_grad.h"
#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/row_products.h"
#include "kernels/cuda/tensor_core_tf32.h"
#include "kernels/function_kernel.h"
#include "kernels/vector_math.h"

// Sources: Dao et al. 2022, FlashAttention, and Milakov and Gimelshein 2018 for sums of exponentials whose shift grows.
// The gradients of queries and of keys have a kernel each, so that each block adds up what it alone writes.

namespace sectionflow {
namespace {

using namespace gpu::row_products;
namespace on_tensor_cores = gpu::attention_tensor_core;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Which part of a tensor [heads, rows, width] a block writes: a tile of a head's rows, and some of its columns where
/// these are many.
struct BlockPlace {
  std::int64_t head, first_row, first_column;
};
struct Blocks {
  Blocks(const AttentionGeometry& g, std::int64_t rows, int columns)
      : heads(g.heads),
        tiles((rows + kTile - 1) / kTile),
        chunks((g.width + columns - 1) / columns),
        columns(columns) {}

  std::int64_t count() const { return heads * tiles * chunks; }
  /// `from_end`: the last tiles come first.
  SF_HOST_DEVICE BlockPlace place(std::int64_t block, bool from_end) const {
    const std::int64_t tile = block / (heads * chunks);
    return {block / chunks % heads, (from_end ? tiles - 1 - tile : tile) * kTile, block % chunks * columns};
  }

  std::int64_t heads, tiles, chunks;
  int columns;
};

/// What blocks read of tensors [heads, rows, width].
template <class T>
SF_HOST_DEVICE TileRows<T> tile_of(const T* x, std::int64_t head, std::int64_t first, std::int64_t rows,
                                   std::int64_t width) {
  return {x + (head * rows + first) * width, rows - first < kTile ? rows - first : kTile};
}

/// y of a tile of queries and, but for a replay, the logarithms of its sums.
template <class T, int kColumns>
struct Attend {
  AttentionGeometry g;
  Blocks blocks;
  const T *q, *k, *v;
  T* y;
  float* log_sums;
  bool has_log_sums;

  /// Of a thread's four queries; `total` of its own keys alone.
  struct Softmax {
    float most[4] = {-kInfinity, -kInfinity, -kInfinity, -kInfinity};
    double total[4] = {};
  };

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    // With `causal` the last queries see the most: they begin first.
    const BlockPlace place = blocks.place(thread.block(), true);
    const TileRows<T> queries = tile_of(q, place.head, place.first_row, g.queries, g.width);
    const std::int64_t seen = g.keys_of(place.first_row + queries.count - 1, g.keys);
    Softmax softmax;
    Four sums[4][kColumns / 64] = {};
    for (std::int64_t first_key = 0; first_key < seen; first_key += kTile) {
      float scores[4][4];
      multiply_rows(thread, queries, tile_of(k, place.head, first_key, g.keys, g.width), g.width, scores);
      exponentials(thread, place.first_row, first_key, softmax, scores, sums);
      store_weights(thread, scores);
      add_weighted_rows<kColumns>(thread, tile_of(v, place.head, first_key, g.keys, g.width), g.width,
                                  place.first_column, sums);
    }
    combine_rows(thread, softmax.total, gpu::Sum());
    float factors[4];
    for (int i = 0; i < 4; ++i) factors[i] = static_cast<float>(1.0 / softmax.total[i]);
    write_sums<kColumns>(thread, sums, factors, y + (place.head * g.queries + place.first_row) * g.width, queries.count,
                         g.width, place.first_column);
    if (has_log_sums || place.first_column > 0 || column_of(thread) > 0) return;
    for (int i = 0; i < 4 && row_of(thread) + i < queries.count; ++i) {
      const std::int64_t query = place.first_row + row_of(thread) + i;
      log_sums[place.head * g.queries + query] = static_cast<float>(softmax.most[i] + std::log(softmax.total[i]));
    }
  }

 private:
  /// scores = exp(scale scores - the largest so far), 0 where a query does not see the key; sums and totals of before
  /// are taken to the new largest.
  template <class Thread>
  SF_HOST_DEVICE void exponentials(Thread& thread, std::int64_t first_query, std::int64_t first_key, Softmax& softmax,
                                   float (&scores)[4][4], Four (&sums)[4][kColumns / 64]) const {
    float most[4];
    for (int i = 0; i < 4; ++i) {
      const std::int64_t seen = g.keys_of(first_query + row_of(thread) + i, g.keys) - first_key;
      most[i] = softmax.most[i];
      for (int j = 0; j < 4; ++j) {
        scores[i][j] = column_of(thread) + kSide * j < seen ? scores[i][j] * g.scale : -kInfinity;
        most[i] = scores[i][j] > most[i] ? scores[i][j] : most[i];
      }
    }
    combine_rows(thread, most, gpu::Larger());
    for (int i = 0; i < 4; ++i) {
      const float shift = most[i] == -kInfinity ? 0.0F : most[i];
      const float rescale = vector_math::exp(softmax.most[i] - shift);
      softmax.most[i] = most[i];
      double total = softmax.total[i] * static_cast<double>(rescale);
      for (int j = 0; j < 4; ++j) {
        scores[i][j] = vector_math::exp(scores[i][j] - shift);  // 0 of -infinity
        total += scores[i][j];
      }
      softmax.total[i] = total;
      for (Four& four : sums[i])
        for (float& sum : four.values) sum *= rescale;
    }
  }
};

/// What the gradient's kernels read. With probabilities P and dP = dy v^T, both [T, S], and mean = sum over keys of
/// P dP: dS = P (dP - mean) scale, dv = P^T dy, dk = dS^T q, dq = dS k.
template <class T>
struct GradientInputs {
  AttentionGeometry g;
  const T *dy, *q, *k, *v;
  const float* log_sums;
  float* means;  // [heads, queries]

  SF_HOST_DEVICE TileRows<T> queries(const T* x, std::int64_t head, std::int64_t first) const {
    return tile_of(x, head, first, g.queries, g.width);
  }
  SF_HOST_DEVICE TileRows<T> keys(const T* x, std::int64_t head, std::int64_t first) const {
    return tile_of(x, head, first, g.keys, g.width);
  }
  /// 0 where there is no such query, or it does not see the key.
  SF_HOST_DEVICE float probability(float score, std::int64_t head, std::int64_t query, std::int64_t key) const {
    if (query >= g.queries || key >= g.keys_of(query, g.keys)) return 0.0F;
    return vector_math::exp(score * g.scale - log_sums[head * g.queries + query]);
  }
  SF_HOST_DEVICE float score_gradient(float p, float dp, std::int64_t head, std::int64_t query) const {
    return query < g.queries ? p * (dp - means[head * g.queries + query]) * g.scale : 0.0F;
  }
};

/// The means of a tile of queries.
template <class T>
struct WriteMeans {
  GradientInputs<T> in;
  Blocks blocks;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const BlockPlace place = blocks.place(thread.block(), true);
    const TileRows<T> q = in.queries(in.q, place.head, place.first_row),
                      dy = in.queries(in.dy, place.head, place.first_row);
    const std::int64_t seen = in.g.keys_of(place.first_row + q.count - 1, in.g.keys);
    const std::int64_t query = place.first_row + row_of(thread);
    double means[4] = {};
    for (std::int64_t first_key = 0; first_key < seen; first_key += kTile) {
      float scores[4][4], dp[4][4];
      multiply_rows(thread, q, in.keys(in.k, place.head, first_key), in.g.width, scores);
      multiply_rows(thread, dy, in.keys(in.v, place.head, first_key), in.g.width, dp);
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
          const std::int64_t key = first_key + column_of(thread) + kSide * j;
          means[i] += static_cast<double>(in.probability(scores[i][j], place.head, query + i, key)) *
                      static_cast<double>(dp[i][j]);
        }
    }
    combine_rows(thread, means, gpu::Sum());
    if (column_of(thread) > 0) return;
    for (int i = 0; i < 4 && row_of(thread) + i < q.count; ++i)
      in.means[place.head * in.g.queries + query + i] = static_cast<float>(means[i]);
  }
};

/// dq of a tile of queries.
template <class T, int kColumns>
struct QueryGradient {
  GradientInputs<T> in;
  Blocks blocks;
  T* dq;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const BlockPlace place = blocks.place(thread.block(), true);
    const TileRows<T> q = in.queries(in.q, place.head, place.first_row),
                      dy = in.queries(in.dy, place.head, place.first_row);
    const std::int64_t seen = in.g.keys_of(place.first_row + q.count - 1, in.g.keys);
    const std::int64_t query = place.first_row + row_of(thread);
    Four sums[4][kColumns / 64] = {};
    for (std::int64_t first_key = 0; first_key < seen; first_key += kTile) {
      float scores[4][4], dp[4][4];
      const TileRows<T> k = in.keys(in.k, place.head, first_key);
      multiply_rows(thread, q, k, in.g.width, scores);
      multiply_rows(thread, dy, in.keys(in.v, place.head, first_key), in.g.width, dp);
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
          const float p =
              in.probability(scores[i][j], place.head, query + i, first_key + column_of(thread) + kSide * j);
          dp[i][j] = in.score_gradient(p, dp[i][j], place.head, query + i);
        }
      store_weights(thread, dp);
      add_weighted_rows<kColumns>(thread, k, in.g.width, place.first_column, sums);
    }
    write_sums<kColumns>(thread, sums, {1, 1, 1, 1}, dq + (place.head * in.g.queries + place.first_row) * in.g.width,
                         q.count, in.g.width, place.first_column);
  }
};

/// dk and dv of a tile of keys.
template <class T, int kColumns>
struct KeyGradient {
  GradientInputs<T> in;
  Blocks blocks;
  T *dk, *dv;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    // With `causal` the first keys are seen by the most.
    const BlockPlace place = blocks.place(thread.block(), false);
    const TileRows<T> k = in.keys(in.k, place.head, place.first_row), v = in.keys(in.v, place.head, place.first_row);
    const std::int64_t key = place.first_row + row_of(thread), width = in.g.width;
    Four dk_sums[4][kColumns / 64] = {}, dv_sums[4][kColumns / 64] = {};
    // With `causal` no query before the first key sees one of these.
    const std::int64_t seeing = in.g.first_query_of(place.first_row);
    for (std::int64_t first = seeing < in.g.queries ? seeing / kTile * kTile : in.g.queries; first < in.g.queries;
         first += kTile) {
      const TileRows<T> q = in.queries(in.q, place.head, first), dy = in.queries(in.dy, place.head, first);
      float p[4][4], dp[4][4];
      multiply_rows(thread, k, q, width, p);
      multiply_rows(thread, v, dy, width, dp);
      for (int j = 0; j < 4; ++j) {
        const std::int64_t query = first + column_of(thread) + kSide * j;
        for (int i = 0; i < 4; ++i) {
          p[i][j] = in.probability(p[i][j], place.head, query, key + i);
          dp[i][j] = in.score_gradient(p[i][j], dp[i][j], place.head, query);
        }
      }
      store_weights(thread, p);
      add_weighted_rows<kColumns>(thread, dy, width, place.first_column, dv_sums);
      store_weights(thread, dp);
      add_weighted_rows<kColumns>(thread, q, width, place.first_column, dk_sums);
    }
    const std::int64_t at = (place.head * in.g.keys + place.first_row) * width;
    write_sums<kColumns>(thread, dk_sums, {1, 1, 1, 1}, dk + at, k.count, width, place.first_column);
    write_sums<kColumns>(thread, dv_sums, {1, 1, 1, 1}, dv + at, k.count, width, place.first_column);
  }
};

gpu::LaunchShape shape_of(const Blocks& blocks) {
  return {.blocks = blocks.count(), .threads = kThreads, .shared_bytes = kSharedBytes};
}

constexpr int kWidest = 128;  // columns of a block
int columns_of(const AttentionGeometry& g) {
  return g.width <= 64 ? 64 : kWidest;
}

/// A block must write over nothing that another still reads: columns of a head's rows lie in one block each, or no
/// output lies over an input.
std::vector<InPlace> pairs_of(const KernelRequest& request, const AttentionGeometry& g,
                              std::initializer_list<int> inputs, int keys) {
  return g.width <= kWidest ? attention_pairs(request.node, inputs, keys) : std::vector<InPlace>{};
}

template <class T, int kColumns>
void attend(const AttentionGeometry& g, bool has_log_sums, const KernelArguments& arguments) {
  const auto input = [&](int index) { return static_cast<const T*>(arguments.inputs[index]); };
  const Blocks blocks(g, g.queries, kColumns);
  gpu::launch_blocks(arguments.queue, shape_of(blocks),
                     Attend<T, kColumns>{g, blocks, input(0), input(1), input(2), static_cast<T*>(arguments.outputs[0]),
                                         static_cast<float*>(arguments.outputs[1]), has_log_sums});
}

template <class T, int kColumns>
void differentiate(const AttentionGeometry& g, const KernelArguments& arguments) {
  const auto input = [&](int index) { return static_cast<const T*>(arguments.inputs[index]); };
  const auto output = [&](int index) { return static_cast<T*>(arguments.outputs[index]); };
  const GradientInputs<T> in{g,
                             input(0),
                             input(1),
                             input(2),
                             input(3),
                             static_cast<const float*>(arguments.inputs[4]),
                             static_cast<float*>(arguments.workspace)};
  const Blocks of_means(g, g.queries, static_cast<int>(g.width)), of_queries(g, g.queries, kColumns),
      of_keys(g, g.keys, kColumns);
  gpu::launch_blocks(arguments.queue, shape_of(of_means), WriteMeans<T>{in, of_means});
  gpu::launch_blocks(arguments.queue, shape_of(of_keys), KeyGradient<T, kColumns>{in, of_keys, output(1), output(2)});
  // Last, as dq may lie over dy or q.
  gpu::launch_blocks(arguments.queue, shape_of(of_queries), QueryGradient<T, kColumns>{in, of_queries, output(0)});
}

/// Whether it runs on tensor cores as TF32. Heads of more than 64 channels would want more shared memory or registers
/// than there are.
bool takes_tf32(const KernelRequest& request, const AttentionGeometry& g) {
  const auto* choice = dynamic_cast<const Tf32Choice*>(&request.device);
  return choice != nullptr && choice->allow_tf32() && request.outputs[0].dtype == Dtype::f32 &&
         on_tensor_cores::serves(g) && columns_of(g) == 64;
}

std::unique_ptr<Kernel> make_attention(const KernelRequest& request) {
  const AttentionGeometry g(request.inputs[0].shape, request.inputs[1].shape, request.node.options<AttentionOptions>());
  const FunctionKernelOptions options{.in_place = pairs_of(request, g, {0}, 1)};
  const bool replay = request.replay;
  if (request.outputs[0].dtype == Dtype::bf16 && on_tensor_cores::serves(g)) {
    return function_kernel(
        [g, replay](const KernelArguments& arguments) {
          columns_of(g) == 64 ? on_tensor_cores::attend<gpu::Bf16Factors, 64>(g, replay, arguments)
                              : on_tensor_cores::attend<gpu::Bf16Factors, kWidest>(g, replay, arguments);
        },
        options);
  }
  if (takes_tf32(request, g)) {
    return function_kernel(
        [g, replay](const KernelArguments& arguments) {
          on_tensor_cores::attend<gpu::Tf32Factors, 64>(g, replay, arguments);
        },
        options);
  }
  return with_stored_type(request.outputs[0].dtype, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel(
        [g, replay](const KernelArguments& arguments) {
          columns_of(g) == 64 ? attend<T, 64>(g, replay, arguments) : attend<T, kWidest>(g, replay, arguments);
        },
        options);
  });
}

std::unique_ptr<Kernel> make_attention_grad(const KernelRequest& request) {
  const AttentionGeometry g(request.inputs[1].shape, request.inputs[2].shape, request.node.options<AttentionOptions>());
  const FunctionKernelOptions options{.workspace_bytes = static_cast<std::size_t>(g.heads * g.queries) * sizeof(float),
                                      .in_place = pairs_of(request, g, {0, 1}, 2)};
  if (request.outputs[0].dtype == Dtype::bf16 && on_tensor_cores::serves(g)) {
    return function_kernel(
        [g](const KernelArguments& arguments) {
          columns_of(g) == 64 ? on_tensor_cores::differentiate<gpu::Bf16Factors, 64>(g, arguments)
                              : on_tensor_cores::differentiate<gpu::Bf16Factors, kWidest>(g, arguments);
        },
        options);
  }
  if (takes_tf32(request, g)) {
    return function_kernel(
        [g](const KernelArguments& arguments) { on_tensor_cores::differentiate<gpu::Tf32Factors, 64>(g, arguments); },
        options);
  }
  return with_stored_type(request.outputs[0].dtype, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel(
        [g](const KernelArguments& arguments) {
          columns_of(g) == 64 ? differentiate<T, 64>(g, arguments) : differentiate<T, kWidest>(g, arguments);
        },
        options);
  });
}

}  // namespace

void add_attention_cuda_kernels(KernelRegistry& registry) {
  registry.add("attention", make_attention, Bf16::native);
  registry.add("attention_grad", make_attention_grad, Bf16::native);
}

}  // namespace sectionflow

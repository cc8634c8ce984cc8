#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/unroll.h"

/// Products of matrices of bf16 by a warp, for tensor cores: sums += left x right with 16 x 16 numbers on the left,
/// 16 x 8 on the right and 16 x 8 sums in f32. Each lane holds a **fragment** of each matrix, as the instruction wants
/// it: with row = lane / 4 and pair = 2 (lane % 4),
///   left:  the pairs at [row, pair], [row + 8, pair], [row, pair + 8], [row + 8, pair + 8],
///   right: the pairs of rows pair and pair + 1, then pair + 8 and pair + 9, in column lane / 4,
///   sums:  [row, pair], [row, pair + 1], [row + 8, pair], [row + 8, pair + 1].
/// GPUs older than 8.0 and the host multiply the fragments one by one: the same sums, not rounded alike.
///
/// Source: PTX ISA, matrix fragments for mma.m16n8k16, and ldmatrix.
namespace sectionflow::gpu {

/// Two numbers of bf16, the first in the lower half.
using Bf16Pair = std::uint32_t;

struct LeftFragment {
  Bf16Pair pairs[4];
};
struct RightFragment {
  Bf16Pair pairs[2];
};

/// Neighbours in shared memory that are copied at once.
struct alignas(16) SharedWord {
  std::uint32_t quarters[4];
};

SF_HOST_DEVICE inline Bf16Pair pair_of(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  Bf16Pair pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
#else
  return BFloat16(first).bits | static_cast<Bf16Pair>(BFloat16(second).bits) << 16;
#endif
}

/// 2^x to what bf16 or TF32 shows of it, by one instruction; 0 of -infinity.
SF_HOST_DEVICE inline float fast_exp2(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return std::exp2(x);
#endif
}

template <class Thread>
SF_HOST_DEVICE int lane_of(Thread& thread) {
  return thread.index() % kWarp;
}

/// What lane `lane` of this thread's warp gives; all lanes must call.
template <class Thread>
SF_HOST_DEVICE float value_of_lane([[maybe_unused]] Thread& thread, float value, [[maybe_unused]] int lane) {
#if defined(__CUDA_ARCH__)
  return __shfl_sync(0xFFFFFFFFU, value, lane);
#elif !defined(__CUDACC__)
  return thread.of_warp(value)[static_cast<std::size_t>(lane)];
#else
  return value;
#endif
}

/// sums += left x right by the definition, in the order of what is summed over. left(i, lane) and right(i, lane) are
/// pair i of a lane's fragment.
template <class Left, class Right>
SF_HOST_DEVICE void add_product_of_pairs(int lane, const Left& left, const Right& right, float (&sums)[4]) {
  const auto number = [](Bf16Pair pair, int i) {
    return std::bit_cast<float>(i == 0 ? pair << 16 : pair & 0xFFFF0000U);
  };
  for (int half = 0; half < 2; ++half) {
    for (int pair = 0; pair < 4; ++pair) {
      const int rows = lane / 4 * 4 + pair, columns = lane % 4 * 8 + pair;
      const Bf16Pair a[2] = {left(2 * half, rows), left(2 * half + 1, rows)};
      const Bf16Pair b[2] = {right(half, columns), right(half, columns + 4)};
      for (int i = 0; i < 2; ++i)
        for (int sum = 0; sum < 4; ++sum) sums[sum] = std::fma(number(a[sum / 2], i), number(b[sum % 2], i), sums[sum]);
    }
  }
}

#if defined(__CUDACC__)
/// A function that is called, as a hundred copies of it take a compiler many minutes.
__device__ __noinline__ inline float4 with_shuffled_product(int lane, LeftFragment left, RightFragment right,
                                                            float4 sums) {
  const auto from = [](Bf16Pair pair, int lane) { return __shfl_sync(0xFFFFFFFFU, pair, lane); };
  float added[4] = {sums.x, sums.y, sums.z, sums.w};
  add_product_of_pairs(
      lane, [&](int i, int lane) { return from(left.pairs[i], lane); },
      [&](int i, int lane) { return from(right.pairs[i], lane); }, added);
  return {added[0], added[1], added[2], added[3]};
}
#endif

/// sums += left x right; all lanes of the warp must call.
template <class Thread>
SF_HOST_DEVICE void add_product([[maybe_unused]] Thread& thread, const LeftFragment& left, const RightFragment& right,
                                float (&sums)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(left.pairs[0]), "r"(left.pairs[1]), "r"(left.pairs[2]), "r"(left.pairs[3]), "r"(right.pairs[0]),
        "r"(right.pairs[1]));
#elif defined(__CUDA_ARCH__)
  const float4 added = with_shuffled_product(lane_of(thread), left, right, {sums[0], sums[1], sums[2], sums[3]});
  sums[0] = added.x, sums[1] = added.y, sums[2] = added.z, sums[3] = added.w;
#elif !defined(__CUDACC__)
  struct Fragments {
    LeftFragment left;
    RightFragment right;
  };
  const auto all = thread.of_warp(Fragments{left, right});
  add_product_of_pairs(
      lane_of(thread), [&](int i, int lane) { return all[static_cast<std::size_t>(lane)].left.pairs[i]; },
      [&](int i, int lane) { return all[static_cast<std::size_t>(lane)].right.pairs[i]; }, sums);
#endif
}

/// Waits for this thread's copies into shared memory; a barrier makes them everybody's.
SF_HOST_DEVICE inline void finish_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/// A tile of rows in shared memory from byte `offset` on. The words of a row lie in an order of their own, so that the
/// same word of eight neighbouring rows lies in other banks each.
template <class T, int rows, int columns>
struct SharedRows {
  using Stored = T;
  static constexpr int kRows = rows, kColumns = columns, kOfWord = 16 / sizeof(T), kWords = columns / kOfWord;
  static constexpr int kBytes = rows * kWords * 16;
  static_assert(rows % 16 == 0 && kWords % 8 == 0);
  int offset;

  /// Begins to copy the rows from `from` on, of which there are `count` of `width` numbers; the rest becomes 0. Done
  /// after finish_copies and a barrier. width: whole words.
  template <int kThreads, class Thread>
  SF_HOST_DEVICE void copy(Thread& thread, const T* from, int count, int width) const {
    constexpr int kTogether = kThreads / kWords;  // rows
    static_assert(kTogether % 8 == 0 && kRows % kTogether == 0);
    const int row = thread.index() / kWords, word = thread.index() % kWords, to = place(row, word);
    const T* source = from + row * width + kOfWord * word;
    auto words = thread.template shared<SharedWord>(static_cast<std::size_t>(offset), kRows * kWords);
    SF_UNROLL
    for (int i = 0; i < kRows / kTogether; ++i) {
      const bool exists = row + i * kTogether < count && kOfWord * word < width;
      copy_word(words, to + i * kTogether * kWords, exists ? source + i * kTogether * width : from, exists);
    }
  }

  /// What a thread has to do with what it copied, once that is there and before the barrier.
  template <int kThreads, class Thread>
  SF_HOST_DEVICE void finish(Thread&) const {}

 protected:
  /// word = change(word) for each word that this thread copied.
  template <int kThreads, class Thread, class Change>
  SF_HOST_DEVICE void change_copied(Thread& thread, const Change& change) const {
    auto words = thread.template shared<SharedWord>(static_cast<std::size_t>(offset), kRows * kWords);
    const int first = place(thread.index() / kWords, thread.index() % kWords);
    SF_UNROLL
    for (int i = 0; i < kRows * kWords / kThreads; ++i) {
      const SharedWord word = words[first + i * kThreads];
      words[first + i * kThreads] = change(word);
    }
  }
  /// Of a word.
  SF_HOST_DEVICE static int place(int row, int word) { return row * kWords + (word ^ (row & 7)); }

  /// A quarter of a word of each of four matrices of eight words, the lines. Line i of matrix m is word line_at(m, i);
  /// a lane gets quarter lane % 4 of line lane / 4, or, transposed, of matrices of 16 bits, column lane / 4 of lines
  /// 2 (lane % 4) and the one behind it.
  struct Four {
    std::uint32_t quarters[4];
  };
  template <bool kTransposed, class Thread, class LineAt>
  SF_HOST_DEVICE Four load(Thread& thread, const LineAt& line_at) const {
    Four four{};
    const int lane = lane_of(thread);
#if defined(__CUDA_ARCH__)
    const auto* words = thread.template shared<SharedWord>(static_cast<std::size_t>(offset), kRows * kWords);
    const auto from = static_cast<unsigned>(__cvta_generic_to_shared(words + line_at(lane / 8, lane % 8)));
    if constexpr (kTransposed) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(four.quarters[0]), "=r"(four.quarters[1]), "=r"(four.quarters[2]), "=r"(four.quarters[3])
                   : "r"(from));
    } else {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(four.quarters[0]), "=r"(four.quarters[1]), "=r"(four.quarters[2]), "=r"(four.quarters[3])
                   : "r"(from));
    }
#else
    const auto quarters = thread.template shared<std::uint32_t>(static_cast<std::size_t>(offset), kRows * kWords * 4);
    for (int matrix = 0; matrix < 4; ++matrix) {
      if constexpr (kTransposed) {
        const auto number = [&](int line) {
          const std::uint32_t two = quarters[4 * line_at(matrix, line) + lane / 8];
          return lane / 4 % 2 == 0 ? two & 0xFFFFU : two >> 16;
        };
        four.quarters[matrix] = number(lane % 4 * 2) | number(lane % 4 * 2 + 1) << 16;
      } else {
        four.quarters[matrix] = quarters[4 * line_at(matrix, lane / 4) + lane % 4];
      }
    }
#endif
    return four;
  }

 private:
  template <class Words>
  SF_HOST_DEVICE static void copy_word(Words& words, int to, const T* from, bool exists) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(words + to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(exists ? 16 : 0)
                 : "memory");
#else
    words[to] = exists ? std::bit_cast<SharedWord>(load_pack<kOfWord>(from)) : SharedWord{};
#endif
  }
};

/// Factors of bf16, for kernels that serve several kinds: how they are stored, fragments, and tiles. Both fragments
/// take 16 numbers of what is summed over.
struct Bf16Factors {
  using Stored = BFloat16;
  using Left = LeftFragment;
  using Right = RightFragment;

  /// The left fragment of 16 rows and columns from row and column of `x` on, [num_rows, width]; 0 beyond.
  template <class Thread>
  SF_HOST_DEVICE static Left load_left(Thread& thread, const BFloat16* x, int first_row, int num_rows, int first_column,
                                       int width) {
    Left left;
    SF_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int row = first_row + lane_of(thread) / 4 + i % 2 * 8,
                column = first_column + lane_of(thread) % 4 * 2 + i / 2 * 8;
      left.pairs[i] = row < num_rows && column < width
                          ? std::bit_cast<Bf16Pair>(load_pack<2>(x + static_cast<std::int64_t>(row) * width + column))
                          : 0;
    }
    return left;
  }
  /// The left fragment of 16 x 16 products of before, rounded: those of columns 0 to 7 and of 8 to 15.
  SF_HOST_DEVICE static Left left_of(const float (&first)[4], const float (&second)[4]) {
    return {{pair_of(first[0], first[1]), pair_of(first[2], first[3]), pair_of(second[0], second[1]),
             pair_of(second[2], second[3])}};
  }
  SF_HOST_DEVICE static void store_pair(BFloat16* to, float first, float second) {
    store_pack(to, std::bit_cast<Pack<BFloat16, 2>>(pair_of(first, second)));
  }

  /// `kOften`: its numbers become parts of a warp's fragments more than once.
  template <int rows, int columns, bool kOften = false>
  struct Tile : SharedRows<BFloat16, rows, columns> {
    /// [16 x 16] from a row and a column on, multiples of 16, as the left of a product.
    template <class Thread>
    SF_HOST_DEVICE Left left(Thread& thread, int row, int column) const {
      const auto four = load_four<Order::down, false>(thread, row, column);
      return {{four.quarters[0], four.quarters[1], four.quarters[2], four.quarters[3]}};
    }
    /// Two rights of products whose columns are 16 rows of the tile, each summed over 16 columns of it.
    template <class Thread>
    SF_HOST_DEVICE void rights_of_rows(Thread& thread, int row, int column, Right (&rights)[2]) const {
      const auto four = load_four<Order::across, false>(thread, row, column);
      rights[0] = {{four.quarters[0], four.quarters[1]}};
      rights[1] = {{four.quarters[2], four.quarters[3]}};
    }
    /// Two rights of products whose columns are 16 columns of the tile, each summed over 16 rows of it.
    template <class Thread>
    SF_HOST_DEVICE void rights_of_columns(Thread& thread, int row, int column, Right (&rights)[2]) const {
      const auto four = load_four<Order::down, true>(thread, row, column);
      rights[0] = {{four.quarters[0], four.quarters[1]}};
      rights[1] = {{four.quarters[2], four.quarters[3]}};
    }

   private:
    using Rows = SharedRows<BFloat16, rows, columns>;
    /// Of the matrices of 8 x 8 from [row, column] on, first those that stand below each other or side by side: the
    /// pairs of a right fragment must come one after the other, or they are moved for each product.
    enum class Order { down, across };
    template <Order kOrder, bool kTransposed, class Thread>
    SF_HOST_DEVICE auto load_four(Thread& thread, int row, int column) const {
      return this->template load<kTransposed>(thread, [=](int matrix, int line) {
        // Rows of 16 do not change the order of words.
        const int down = kOrder == Order::down ? matrix % 2 : matrix / 2, across = matrix / 2 + matrix % 2 - down;
        return row * Rows::kWords + Rows::place(down * 8 + line, column / 8 + across);
      });
    }
  };
};

}  // namespace sectionflow::gpu

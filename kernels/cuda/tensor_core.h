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

/// Eight numbers, which are copied at once.
struct alignas(16) Bf16Eight {
  Bf16Pair pairs[4];
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

/// 2^x to what bf16 shows of it, by one instruction; 0 of -infinity.
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

/// The left fragment of 16 x 16 products of before, rounded to bf16: those of columns 0 to 7 and of 8 to 15.
SF_HOST_DEVICE inline LeftFragment left_of(const float (&first)[4], const float (&second)[4]) {
  return {{pair_of(first[0], first[1]), pair_of(first[2], first[3]), pair_of(second[0], second[1]),
           pair_of(second[2], second[3])}};
}

/// Waits for this thread's copies into shared memory; a barrier makes them everybody's.
SF_HOST_DEVICE inline void finish_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/// A tile of rows in shared memory from byte `offset` on. The eights of a row lie in an order of their own, so that the
/// same eight of eight neighbouring rows lies in other banks each.
template <int rows, int columns>
struct SharedTile {
  static constexpr int kRows = rows, kColumns = columns, kEights = columns / 8;
  static constexpr int kBytes = rows * columns * 2;
  static_assert(rows % 16 == 0 && kEights % 8 == 0);
  int offset;

  /// Begins to copy the rows from `from` on, of which there are `count` of `width` numbers; the rest becomes 0. Done
  /// after finish_copies and a barrier. width: a multiple of 8.
  template <int kThreads, class Thread>
  SF_HOST_DEVICE void copy(Thread& thread, const BFloat16* from, int count, int width) const {
    constexpr int kTogether = kThreads / kEights;  // rows
    static_assert(kTogether % 8 == 0 && kRows % kTogether == 0);
    const int row = thread.index() / kEights, eight = thread.index() % kEights, to = place(row, eight);
    const BFloat16* source = from + row * width + 8 * eight;
    auto eights = thread.template shared<Bf16Eight>(static_cast<std::size_t>(offset), kRows * kEights);
    SF_UNROLL
    for (int i = 0; i < kRows / kTogether; ++i) {
      const bool exists = row + i * kTogether < count && 8 * eight < width;
      copy_eight(eights, to + i * kTogether * kEights, exists ? source + i * kTogether * width : from, exists);
    }
  }

  /// [16 x 16] from a row and a column on, multiples of 16, as the left of a product.
  template <class Thread>
  SF_HOST_DEVICE LeftFragment left(Thread& thread, int row, int column) const {
    const FourPairs four = load<Order::down, false>(thread, row, column);
    return {{four.pairs[0], four.pairs[1], four.pairs[2], four.pairs[3]}};
  }
  /// Two rights of products whose columns are 16 rows of the tile, each summed over 16 columns of it.
  template <class Thread>
  SF_HOST_DEVICE void rights_of_rows(Thread& thread, int row, int column, RightFragment (&rights)[2]) const {
    const FourPairs four = load<Order::across, false>(thread, row, column);
    rights[0] = {{four.pairs[0], four.pairs[1]}};
    rights[1] = {{four.pairs[2], four.pairs[3]}};
  }
  /// Two rights of products whose columns are 16 columns of the tile, each summed over 16 rows of it.
  template <class Thread>
  SF_HOST_DEVICE void rights_of_columns(Thread& thread, int row, int column, RightFragment (&rights)[2]) const {
    const FourPairs four = load<Order::down, true>(thread, row, column);
    rights[0] = {{four.pairs[0], four.pairs[1]}};
    rights[1] = {{four.pairs[2], four.pairs[3]}};
  }

 private:
  template <class Eights>
  SF_HOST_DEVICE static void copy_eight(Eights& eights, int to, const BFloat16* from, bool exists) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(eights + to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(exists ? 16 : 0)
                 : "memory");
#else
    eights[to] = exists ? std::bit_cast<Bf16Eight>(load_pack<8>(from)) : Bf16Eight{};
#endif
  }

  /// Of an eight.
  SF_HOST_DEVICE static int place(int row, int eight) {
    return row * kEights + (eight ^ (row & 7));
  }

  /// A pair of each of the four matrices of 8 x 8 from [row, column] on, first those that stand below each other or
  /// side by side: the pairs of a right fragment must come one after the other, or they are moved for each product. The
  /// pair lies in line lane / 4 of a matrix, from its column 2 (lane % 4) on, or, transposed, in these lines of that
  /// column.
  enum class Order { down, across };
  struct FourPairs {
    Bf16Pair pairs[4];
  };
  template <Order kOrder, bool kTransposed, class Thread>
  SF_HOST_DEVICE FourPairs load(Thread& thread, int row, int column) const {
    FourPairs four{};
    const int lane = lane_of(thread);
    const auto line_at = [=](int matrix, int line) {  // rows of 16 do not change the order of eights
      const int down = kOrder == Order::down ? matrix % 2 : matrix / 2, across = matrix / 2 + matrix % 2 - down;
      return row * kEights + place(down * 8 + line, column / 8 + across);
    };
#if defined(__CUDA_ARCH__)
    const auto* eights = thread.template shared<Bf16Eight>(static_cast<std::size_t>(offset), kRows * kEights);
    const auto from = static_cast<unsigned>(__cvta_generic_to_shared(eights + line_at(lane / 8, lane % 8)));
    if constexpr (kTransposed) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(four.pairs[0]), "=r"(four.pairs[1]), "=r"(four.pairs[2]), "=r"(four.pairs[3])
                   : "r"(from));
    } else {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(four.pairs[0]), "=r"(four.pairs[1]), "=r"(four.pairs[2]), "=r"(four.pairs[3])
                   : "r"(from));
    }
#else
    const auto pairs = thread.template shared<Bf16Pair>(static_cast<std::size_t>(offset), kRows * kEights * 4);
    for (int matrix = 0; matrix < 4; ++matrix) {
      if constexpr (kTransposed) {
        const auto number = [&](int line) {
          const Bf16Pair pair = pairs[4 * line_at(matrix, line) + lane / 8];
          return lane / 4 % 2 == 0 ? pair & 0xFFFFU : pair >> 16;
        };
        four.pairs[matrix] = number(lane % 4 * 2) | number(lane % 4 * 2 + 1) << 16;
      } else {
        four.pairs[matrix] = pairs[4 * line_at(matrix, lane / 4) + lane % 4];
      }
    }
#endif
    return four;
  }
};

}  // namespace sectionflow::gpu

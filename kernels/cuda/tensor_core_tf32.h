#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/elements.h"
#include "kernels/cuda/tensor_core.h"

/// Products of matrices of f32 by a warp, for tensor cores, which take factors of TF32: f32 with 10 bits of fraction.
/// As in tensor_core.h, 16 x 16 numbers on the left, 16 x 8 on the right and 16 x 8 sums in f32; two instructions sum
/// over eight each. With row = lane / 4 and i = lane % 4, of each eight a lane has
///   left:  [row, i], [row + 8, i], [row, i + 4], [row + 8, i + 4],
///   right: rows i and i + 4 in column lane / 4,
///   sums:  [row, 2 i], [row, 2 i + 1], [row + 8, 2 i], [row + 8, 2 i + 1].
/// Which numbers of an eight are i and i + 4 does not matter if left and right agree. Sums that become the left of a
/// product are taken as they lie, 2 i and 2 i + 1, and so are the rows of tiles that these are multiplied with.
///
/// Source: PTX ISA, matrix fragments for mma.m16n8k8.
namespace sectionflow::gpu {

/// The bits of a number of TF32, in the upper 19 of 32.
using Tf32Bits = std::uint32_t;

struct Tf32Left {
  Tf32Bits numbers[8];
};
struct Tf32Right {
  Tf32Bits numbers[4];
};

/// The nearest, of two the one that is further from 0.
SF_HOST_DEVICE inline Tf32Bits tf32_of(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  Tf32Bits bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
#else
  const auto bits = std::bit_cast<std::uint32_t>(x);
  constexpr std::uint32_t kExponent = 0x7F800000U;
  return (bits & kExponent) == kExponent ? bits : (bits + 0x1000U) & ~0x1FFFU;
#endif
}

/// sums += left x right by the definition, in the order of what is summed over. left(i, lane) and right(i, lane) are
/// number i of a lane's fragment.
template <class Left, class Right>
SF_HOST_DEVICE void add_product_of_numbers(int lane, const Left& left, const Right& right, float (&sums)[4]) {
  for (int inner = 0; inner < 16; ++inner) {
    const int eight = inner / 8, half = inner / 4 % 2;
    const int rows = lane / 4 * 4 + inner % 4, columns = lane % 4 * 8 + inner % 4;
    const float a[2] = {left(4 * eight + 2 * half, rows), left(4 * eight + 2 * half + 1, rows)};
    const float b[2] = {right(2 * eight + half, columns), right(2 * eight + half, columns + 4)};
    for (int sum = 0; sum < 4; ++sum) sums[sum] = std::fma(a[sum / 2], b[sum % 2], sums[sum]);
  }
}

#if defined(__CUDACC__)
/// A function that is called, as with_shuffled_product.
__device__ __noinline__ inline float4 with_shuffled_tf32_product(int lane, Tf32Left left, Tf32Right right,
                                                                 float4 sums) {
  const auto from = [](Tf32Bits bits, int lane) { return __uint_as_float(__shfl_sync(0xFFFFFFFFU, bits, lane)); };
  float added[4] = {sums.x, sums.y, sums.z, sums.w};
  add_product_of_numbers(
      lane, [&](int i, int lane) { return from(left.numbers[i], lane); },
      [&](int i, int lane) { return from(right.numbers[i], lane); }, added);
  return {added[0], added[1], added[2], added[3]};
}
#endif

/// sums += left x right; all lanes of the warp must call.
template <class Thread>
SF_HOST_DEVICE void add_product([[maybe_unused]] Thread& thread, const Tf32Left& left, const Tf32Right& right,
                                float (&sums)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  SF_UNROLL
  for (int eight = 0; eight < 2; ++eight) {
    const Tf32Bits *a = left.numbers + 4 * eight, *b = right.numbers + 2 * eight;
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#elif defined(__CUDA_ARCH__)
  const float4 added = with_shuffled_tf32_product(lane_of(thread), left, right, {sums[0], sums[1], sums[2], sums[3]});
  sums[0] = added.x, sums[1] = added.y, sums[2] = added.z, sums[3] = added.w;
#elif !defined(__CUDACC__)
  struct Fragments {
    Tf32Left left;
    Tf32Right right;
  };
  const auto all = thread.of_warp(Fragments{left, right});
  const auto of_lane = [&](int lane) -> const Fragments& { return all[static_cast<std::size_t>(lane)]; };
  add_product_of_numbers(
      lane_of(thread), [&](int i, int lane) { return std::bit_cast<float>(of_lane(lane).left.numbers[i]); },
      [&](int i, int lane) { return std::bit_cast<float>(of_lane(lane).right.numbers[i]); }, sums);
#endif
}

/// As Bf16Factors: numbers are f32 in memory and rounded as they become part of a fragment, which takes two
/// instructions for each. Where that happens often, they are rounded in the tile, which costs a load and a store more.
struct Tf32Factors {
  using Stored = float;
  using Left = Tf32Left;
  using Right = Tf32Right;

  template <class Thread>
  SF_HOST_DEVICE static Left load_left(Thread& thread, const float* x, int first_row, int num_rows, int first_column,
                                       int width) {
    Left left;
    SF_UNROLL
    for (int i = 0; i < 8; ++i) {
      const int row = first_row + lane_of(thread) / 4 + i % 2 * 8,
                column = first_column + lane_of(thread) % 4 + i / 2 * 4;
      const bool exists = row < num_rows && column < width;
      // Loaded in any case, as rounding in a branch would wait for each load before the next.
      const float number = x[exists ? static_cast<std::int64_t>(row) * width + column : 0];
      left.numbers[i] = exists ? tf32_of(number) : 0;
    }
    return left;
  }
  SF_HOST_DEVICE static Left left_of(const float (&first)[4], const float (&second)[4]) {
    return {{tf32_of(first[0]), tf32_of(first[2]), tf32_of(first[1]), tf32_of(first[3]), tf32_of(second[0]),
             tf32_of(second[2]), tf32_of(second[1]), tf32_of(second[3])}};
  }
  SF_HOST_DEVICE static void store_pair(float* to, float first, float second) {
    store_pack(to, Pack<float, 2>{{first, second}});
  }

  /// As those of Bf16Factors. Rows 2 i and 2 i + 1 of each eight are i and i + 4 of what is summed over.
  template <int rows, int columns, bool kOften = false>
  struct Tile : SharedRows<float, rows, columns> {
    template <int kThreads, class Thread>
    SF_HOST_DEVICE void finish(Thread& thread) const {
      if constexpr (kOften) {
        this->template change_copied<kThreads>(thread, [](SharedWord word) {
          SF_UNROLL
          for (std::uint32_t& quarter : word.quarters) quarter = tf32_of(std::bit_cast<float>(quarter));
          return word;
        });
      }
    }
    template <class Thread>
    SF_HOST_DEVICE Left left(Thread& thread, int row, int column) const {
      Left left;
      SF_UNROLL
      for (int eight = 0; eight < 2; ++eight) {
        const auto four = this->template load<false>(thread, [=](int matrix, int line) {
          return row * Rows::kWords + Rows::place(matrix % 2 * 8 + line, column / 4 + 2 * eight + matrix / 2);
        });
        SF_UNROLL
        for (int i = 0; i < 4; ++i) left.numbers[4 * eight + i] = rounded(four.quarters[i]);
      }
      return left;
    }
    template <class Thread>
    SF_HOST_DEVICE void rights_of_rows(Thread& thread, int row, int column, Right (&rights)[2]) const {
      SF_UNROLL
      for (int eight = 0; eight < 2; ++eight) {
        const auto four = this->template load<false>(thread, [=](int matrix, int line) {
          return row * Rows::kWords + Rows::place(eight * 8 + line, column / 4 + matrix);
        });
        SF_UNROLL
        for (int i = 0; i < 4; ++i) rights[eight].numbers[i] = rounded(four.quarters[i]);
      }
    }
    /// Loads of single numbers, since ldmatrix transposes none of 32 bits. No two lanes want the same bank here either:
    /// four even rows, or four odd ones, have the same two neighbouring words in eight different places.
    template <class Thread>
    SF_HOST_DEVICE void rights_of_columns(Thread& thread, int row, int column, Right (&rights)[2]) const {
      const auto numbers = thread.template shared<float>(static_cast<std::size_t>(this->offset), rows * columns);
      const int lane = lane_of(thread);
      SF_UNROLL
      for (int eight = 0; eight < 2; ++eight) {
        SF_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int down = i / 2 * 8 + lane % 4 * 2 + i % 2, word = column / 4 + 2 * eight + lane / 16;
          const float number = numbers[4 * (row * Rows::kWords + Rows::place(down, word)) + lane / 4 % 4];
          rights[eight].numbers[i] = rounded(std::bit_cast<std::uint32_t>(number));
        }
      }
    }

   private:
    using Rows = SharedRows<float, rows, columns>;
    SF_HOST_DEVICE static Tf32Bits rounded(std::uint32_t bits) {
      return kOften ? bits : tf32_of(std::bit_cast<float>(bits));
    }
  };
};

}  // namespace sectionflow::gpu

#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/host_device.h"
#include "base/shape.h"
#include "kernels/reduce_axes.h"
#include "kernels/strides.h"

namespace sectionflow::gpu {

/// Divides by a number that the host knows: a multiplication and a shift while both numbers are below 2^31.
class Divisor {
 public:
  Divisor() = default;
  /// `divisor` >= 1; where there is nothing to divide, 0 is taken for 1.
  explicit Divisor(std::int64_t divisor) : divisor_(divisor < 1 ? 1 : divisor) {
    if (divisor_ >= kLimit) {  // all that is below the limit is below the divisor
      factor_ = 0;
      return;
    }
    // floor(n m / 2^(31 + s)) is n / d for n < 2^31, where 2^(s - 1) < d <= 2^s and m = floor(2^(31 + s) / d) + 1.
    const int bits = std::bit_width(static_cast<std::uint64_t>(divisor_ - 1));
    shift_ = 31 + bits;
    factor_ = (std::uint64_t{1} << shift_) / static_cast<std::uint64_t>(divisor_) + 1;
  }

  SF_HOST_DEVICE std::int64_t divisor() const { return divisor_; }
  /// n / divisor, for n >= 0.
  SF_HOST_DEVICE std::int64_t quotient(std::int64_t n) const {
    if (n >= kLimit) return n / divisor_;
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(n) * factor_ >> shift_);
  }
  /// n % divisor; n becomes the quotient.
  SF_HOST_DEVICE std::int64_t cut(std::int64_t& n) const {
    const std::int64_t whole = quotient(n), rest = n - whole * divisor_;
    n = whole;
    return rest;
  }

 private:
  static constexpr std::int64_t kLimit = std::int64_t{1} << 31;
  std::int64_t divisor_ = 1;
  std::uint64_t factor_ = 1;  // at most 2^32
  int shift_ = 0;
};

/// Where the elements of `kOperands` tensors lie for a position in some dimensions, counted in row-major order.
template <int kOperands>
struct Positions {
  Positions() = default;
  explicit Positions(const MergedAxes<kOperands>& merged) : rank(merged.rank) {
    for (int i = 0; i < rank; ++i) {
      dims[i] = Divisor(merged.axes[i].dim);
      for (int k = 0; k < kOperands; ++k) strides[i][k] = merged.axes[i].strides[k];
    }
  }
  explicit Positions(const ReduceAxes::Index& index) : rank(index.rank) {
    static_assert(kOperands == 1);
    for (int i = 0; i < rank; ++i) {
      dims[i] = Divisor(index.dims[rank - 1 - i]);
      strides[i][0] = index.strides[rank - 1 - i];
    }
  }

  SF_HOST_DEVICE void offsets_of(std::int64_t position, std::int64_t (&offsets)[kOperands]) const {
    for (int k = 0; k < kOperands; ++k) offsets[k] = 0;
    for (int i = rank - 1; i >= 0; --i) {
      // The outermost needs no division.
      const std::int64_t along = i > 0 ? dims[i].cut(position) : position;
      for (int k = 0; k < kOperands; ++k) offsets[k] += along * strides[i][k];
    }
  }
  SF_HOST_DEVICE std::int64_t offset_of(std::int64_t position) const {
    static_assert(kOperands == 1);
    std::int64_t offsets[1];
    offsets_of(position, offsets);
    return offsets[0];
  }

  int rank = 0;
  Divisor dims[Shape::kMaxRank];                     // outermost first
  std::int64_t strides[Shape::kMaxRank][kOperands];  // set up to rank
};

}  // namespace sectionflow::gpu

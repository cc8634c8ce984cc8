#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace sectionflow {

/// How the magnitudes |x| of a tensor's values are distributed between 0 and the largest, in bins of equal width. Zeros
/// are counted apart.
class Magnitudes {
 public:
  static constexpr std::size_t kBins = 2048;

  /// `largest`: no magnitude is beyond it; finite, 0 or more.
  explicit Magnitudes(double largest) : largest_(largest) {}

  void add(float value);
  std::int64_t count() const;
  double largest() const { return largest_; }
  /// The upper end of the first bin up to which there are so many percent of the values; 0 where these are all 0.
  double percentile(double percent) const;
  /// The upper end of that bin beyond which values are cut off where the distribution in `levels` levels of equal width
  /// diverges least from the whole one. Source: Migacz 2017, 8-bit Inference with TensorRT.
  double least_divergence(std::size_t levels) const;

 private:
  double end_of(std::size_t bin) const { return largest_ * static_cast<double>(bin + 1) / kBins; }
  double divergence(std::size_t bins, std::size_t levels) const;

  double largest_;
  std::int64_t zeros_ = 0;
  std::array<std::int64_t, kBins> counts_{};
};

}  // namespace sectionflow

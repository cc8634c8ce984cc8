#include "transform/magnitudes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace sectionflow {

void Magnitudes::add(float value) {
  const double magnitude = std::abs(static_cast<double>(value));
  if (magnitude == 0 || largest_ == 0) {
    ++zeros_;
    return;
  }
  const auto bin = static_cast<std::size_t>(magnitude / largest_ * kBins);
  ++counts_[std::min(bin, kBins - 1)];
}

std::int64_t Magnitudes::count() const {
  return std::accumulate(counts_.begin(), counts_.end(), zeros_);
}

double Magnitudes::percentile(double percent) const {
  const double wanted = static_cast<double>(count()) * percent / 100;
  double found = static_cast<double>(zeros_);
  if (found >= wanted) return 0;
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    found += static_cast<double>(counts_[bin]);
    if (found >= wanted) return end_of(bin);
  }
  return largest_;
}

/// Of P, the first bins with all that is beyond them in the last one, and Q, which has the mean of the bins of a level
/// in each of them that is not empty: sum of p log(p / q), both of sum 1. Infinite where Q has nothing at all.
double Magnitudes::divergence(std::size_t bins, std::size_t levels) const {
  std::array<double, kBins> levelled{};
  double whole = 0, sum = 0;
  for (std::size_t level = 0; level < levels; ++level) {
    const std::size_t begin = level * bins / levels, end = (level + 1) * bins / levels;
    double total = 0;
    int filled = 0;
    for (std::size_t bin = begin; bin < end; ++bin) {
      total += static_cast<double>(counts_[bin]);
      filled += counts_[bin] > 0 ? 1 : 0;
    }
    for (std::size_t bin = begin; bin < end; ++bin) levelled[bin] = counts_[bin] > 0 ? total / filled : 0;
    sum += total;
  }
  if (sum == 0) return std::numeric_limits<double>::infinity();
  double beyond = 0;
  for (std::size_t bin = bins; bin < kBins; ++bin) beyond += static_cast<double>(counts_[bin]);
  whole = sum + beyond;
  double divergence = 0;
  for (std::size_t bin = 0; bin < bins; ++bin) {
    const double count = static_cast<double>(counts_[bin]) + (bin + 1 == bins ? beyond : 0);
    if (count == 0) continue;
    // An empty last bin that gets what is beyond: one value of it counts as there, so that the logarithm is finite.
    const double q = std::max(levelled[bin], 1.0) / sum;
    divergence += count / whole * std::log(count / whole / q);
  }
  return divergence;
}

double Magnitudes::least_divergence(std::size_t levels) const {
  constexpr std::size_t kSteps = 16;  // bins from one threshold that is tried to the next
  double least = std::numeric_limits<double>::infinity();
  std::size_t best = kBins;
  for (std::size_t bins = levels; bins <= kBins; bins += kSteps) {
    const double found = divergence(bins, levels);
    if (found < least) {
      least = found;
      best = bins;
    }
  }
  return end_of(best - 1);
}

}  // namespace sectionflow

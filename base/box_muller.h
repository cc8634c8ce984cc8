#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/host_device.h"

namespace sectionflow::box_muller {

/// Two independent standard normal numbers.
struct Two {
  float first, second;
};

/// From two uniform words, for host and device. Source: Box and Muller 1958.
SF_HOST_DEVICE inline Two normals(std::uint32_t word_a, std::uint32_t word_b) {
  // In double and from (0, 1], so that the logarithm never sees zero and the tails reach 6.6 sigma.
  const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(word_a) + 1.0) * 0x1p-32));
  const double angle = 2.0 * std::numbers::pi * static_cast<double>(word_b) * 0x1p-32;
  return {static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))};
}

}  // namespace sectionflow::box_muller

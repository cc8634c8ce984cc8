#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "kernels/vector_math.h"

/// Element-wise functions of one number, shared by every device.
namespace sectionflow::formulas {

struct Negate {
  SF_HOST_DEVICE float operator()(float x) const { return -x; }
  // Unsigned, so that the lowest number wraps around.
  SF_HOST_DEVICE std::uint64_t operator()(std::uint64_t x) const { return 0 - x; }
};

struct Square {
  SF_HOST_DEVICE float operator()(float x) const { return x * x; }
};
struct SquareGrad {
  SF_HOST_DEVICE float operator()(float dy, float x) const { return dy * (x + x); }
};

struct Sqrt {
  SF_HOST_DEVICE float operator()(float x) const { return std::sqrt(x); }
};
struct SqrtGrad {
  SF_HOST_DEVICE float operator()(float dy, float y) const { return dy * 0.5F / y; }
};

struct Rsqrt {
  SF_HOST_DEVICE float operator()(float x) const { return 1.0F / std::sqrt(x); }
};
struct RsqrtGrad {
  SF_HOST_DEVICE float operator()(float dy, float y) const { return dy * -0.5F * y * (y * y); }
};

struct Exp {
  SF_HOST_DEVICE float operator()(float x) const { return vector_math::exp(x); }
};
struct Log {
  SF_HOST_DEVICE float operator()(float x) const { return vector_math::log(x); }
};

}  // namespace sectionflow::formulas

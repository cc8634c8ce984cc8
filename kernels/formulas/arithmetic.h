#pragma once

#include <cmath>

#include "base/host_device.h"
#include "kernels/vector_math.h"

/// Element-wise arithmetic, comparisons and choices of two numbers, shared by every device. Integers come unsigned
/// where a result may leave the range: it then wraps around.
namespace sectionflow::formulas {

struct Add {
  template <class T>
  SF_HOST_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};
struct Subtract {
  template <class T>
  SF_HOST_DEVICE T operator()(T a, T b) const {
    return a - b;
  }
};
struct Multiply {
  template <class T>
  SF_HOST_DEVICE T operator()(T a, T b) const {
    return a * b;
  }
};
struct Divide {
  SF_HOST_DEVICE float operator()(float a, float b) const { return a / b; }
};

// A NaN on the left is not equal to itself, one on the right is neither less nor greater: both are the result.
struct Maximum {
  template <class T>
  SF_HOST_DEVICE T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};
struct Minimum {
  template <class T>
  SF_HOST_DEVICE T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
};

/// dy where `a` is chosen, half of it where both are equal. NaN passes dy. By bits: a branch would not vectorise.
struct MaximumGrad {
  SF_HOST_DEVICE float operator()(float dy, float a, float b) const {
    const float half = 0.5F * dy;
    return vector_math::select(a < b, 0.0F, vector_math::select(a == b, half, dy));
  }
};
struct MinimumGrad {
  SF_HOST_DEVICE float operator()(float dy, float a, float b) const {
    const float half = 0.5F * dy;
    return vector_math::select(a > b, 0.0F, vector_math::select(a == b, half, dy));
  }
};

// The library's function, in double: a power of f32 with good last digits takes a logarithm of more digits than f32's,
// and what trains networks are squares and roots, which have ops of their own.
struct Power {
  SF_HOST_DEVICE float operator()(float a, float b) const {
    return static_cast<float>(std::pow(static_cast<double>(a), static_cast<double>(b)));
  }
};
struct PowerGradBase {
  SF_HOST_DEVICE float operator()(float dy, float a, float b) const {
    if (b == 0.0F) return 0.0F;
    return static_cast<float>(dy * (b * std::pow(static_cast<double>(a), b - 1.0)));
  }
};
struct PowerGradExponent {
  SF_HOST_DEVICE float operator()(float dy, float y, float a) const {
    // A finite y minus itself is 0.
    if (a == 0.0F && y - y == 0.0F) return 0.0F;
    return static_cast<float>(dy * (y * std::log(static_cast<double>(a))));
  }
};

struct Equal {
  template <class T>
  SF_HOST_DEVICE bool operator()(T a, T b) const {
    return a == b;
  }
};
struct NotEqual {
  template <class T>
  SF_HOST_DEVICE bool operator()(T a, T b) const {
    return a != b;
  }
};
struct Less {
  template <class T>
  SF_HOST_DEVICE bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessEqual {
  template <class T>
  SF_HOST_DEVICE bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct Greater {
  template <class T>
  SF_HOST_DEVICE bool operator()(T a, T b) const {
    return a > b;
  }
};
struct GreaterEqual {
  template <class T>
  SF_HOST_DEVICE bool operator()(T a, T b) const {
    return a >= b;
  }
};

// By bits: a branch would not vectorise.
struct And {
  SF_HOST_DEVICE bool operator()(bool a, bool b) const { return a & b; }
};
struct Or {
  SF_HOST_DEVICE bool operator()(bool a, bool b) const { return a | b; }
};
struct Xor {
  SF_HOST_DEVICE bool operator()(bool a, bool b) const { return a != b; }
};

struct Select {
  template <class T>
  SF_HOST_DEVICE T operator()(bool condition, T a, T b) const {
    return condition ? a : b;
  }
};

}  // namespace sectionflow::formulas

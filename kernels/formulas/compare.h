#pragma once

#include "base/host_device.h"

/// Element-wise comparisons, choices and bounds, shared by every device.
namespace sectionflow::formulas {

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

struct Select {
  template <class T>
  SF_HOST_DEVICE T operator()(bool condition, T a, T b) const {
    return condition ? a : b;
  }
};

struct Clip {
  float low, high;
  SF_HOST_DEVICE float operator()(float x) const { return x < low ? low : (x > high ? high : x); }
};
struct ClipGrad {
  float low, high;
  SF_HOST_DEVICE float operator()(float dy, float x) const {
    const float passed = x <= high ? dy : 0.0F;
    return x >= low ? passed : 0.0F;
  }
};

}  // namespace sectionflow::formulas

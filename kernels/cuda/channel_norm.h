#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/channels.h"
#include "kernels/formulas/batch_norm.h"
#include "kernels/function_kernel.h"

// What batch_norm and group_norm share: statistics, normalisation and sums of gradients per channel.
namespace sectionflow::gpu {

inline std::size_t add_per_channel(WorkspaceLayout& workspace, const Channels& of) {
  return workspace.add(static_cast<std::size_t>(of.channels) * sizeof(float));
}

/// What the sums of a channel are taken around: its first element, so that a mean far from 0 cancels nothing. An
/// element is at most sqrt(count) standard deviations from the mean, so that the variance loses no more than the
/// factor count of what a double has beyond a float.
template <class T>
SF_HOST_DEVICE double centre_of(const T* x, const Channels& of, std::int64_t channel) {
  if (of.count() == 0) return 0;
  const float first = x[of.first(channel)];
  return first - first == 0.0F ? first : 0.0F;  // infinity would make the mean NaN
}

/// Sums of x - centre and of its square.
template <class T>
struct Deviations {
  using Element = T;
  static constexpr int kInputs = 1;
  Channels of;
  const T* inputs[1];

  template <int kWidth>
  struct Add {
    double centres[kWidth];
    SF_HOST_DEVICE void operator()(int i, NoRow, const float (&x)[1], double (&sums)[2]) const {
      const double deviation = x[0] - centres[i];
      sums[0] += deviation;
      sums[1] = std::fma(deviation, deviation, sums[1]);
    }
  };
  template <int kWidth>
  SF_HOST_DEVICE Add<kWidth> of_channels(std::int64_t c) const {
    Add<kWidth> add;
    for (int i = 0; i < kWidth; ++i) add.centres[i] = centre_of(inputs[0], of, c + i);
    return add;
  }
  SF_HOST_DEVICE NoRow of_row(std::int64_t) const { return {}; }
};

/// Mean and biased variance from these.
template <class T>
struct WriteMoments {
  Channels of;
  const T* x;
  float *mean, *variance;

  SF_HOST_DEVICE void operator()(std::int64_t c, const double (&sums)[2]) const {
    const double count = of.count() > 0 ? static_cast<double>(of.count()) : 1.0;
    const double value = (sums[1] - sums[0] * (sums[0] / count)) / count;
    mean[c] = static_cast<float>(centre_of(x, of, c) + sums[0] / count);
    variance[c] = static_cast<float>(value < 0 ? 0.0 : value);
  }
};

/// y from x, with factor = what x - mean is multiplied by.
template <bool relu>
struct NormalizeChannels {
  const float *mean, *factor, *shift;

  template <int kWidth>
  struct Of {
    Floats<kWidth> mean, factor, shift;
    SF_HOST_DEVICE float operator()(int i, const float (&x)[1]) const {
      const float value = formulas::batch_normalized(x[0], mean[i], factor[i], shift[i]);
      return relu && value <= 0.0F ? 0.0F : value;  // NaN passes
    }
  };
  template <int kWidth>
  SF_HOST_DEVICE Of<kWidth> of_channels(std::int64_t c) const {
    return {load_floats<kWidth>(mean + c), load_floats<kWidth>(factor + c), load_floats<kWidth>(shift + c)};
  }
};

/// The gradient that reaches the norm itself: all of dy, or with `relu` where y is positive.
template <bool relu>
SF_HOST_DEVICE float arriving(float dy, float x, float mean, float factor, float shift) {
  return !relu || formulas::batch_normalized(x, mean, factor, shift) > 0.0F ? dy : 0.0F;
}

/// One number a channel each; `shift` is read with relu alone.
struct PerChannel {
  const float *mean, *factor, *shift;
};

/// Sums of the gradient that arrives, and of its product with x - mean. The factor is read with relu alone.
template <class T, bool relu>
struct Arrivals {
  using Element = T;
  static constexpr int kInputs = 2;
  const T* inputs[2];  // dy, x
  PerChannel of;

  template <int kWidth>
  struct Add {
    Floats<kWidth> mean, factor, shift;  // the last two with relu alone
    SF_HOST_DEVICE void operator()(int i, NoRow, const float (&values)[2], double (&sums)[2]) const {
      const float dy = values[0], x = values[1];
      const double arrived = relu ? arriving<relu>(dy, x, mean[i], factor[i], shift[i]) : dy;
      sums[0] += arrived;
      // The product of two floats is a double without being rounded.
      sums[1] = std::fma(arrived, static_cast<double>(x - mean[i]), sums[1]);
    }
  };
  template <int kWidth>
  SF_HOST_DEVICE Add<kWidth> of_channels(std::int64_t c) const {
    const auto mean = load_floats<kWidth>(of.mean + c);
    if (!relu) return {mean, {}, {}};
    return {mean, load_floats<kWidth>(of.factor + c), load_floats<kWidth>(of.shift + c)};
  }
  SF_HOST_DEVICE NoRow of_row(std::int64_t) const { return {}; }
};

/// dx = formula(dy that arrives, x, mean, factor, a, b), with numbers a and b of each channel.
template <class Formula, bool relu>
struct ChannelDx {
  PerChannel of;
  const float *a, *b;

  template <int kWidth>
  struct Of {
    Floats<kWidth> mean, factor, shift, a, b;
    SF_HOST_DEVICE float operator()(int i, const float (&values)[2]) const {
      const float dy = values[0], x = values[1];
      const float arrived = arriving<relu>(dy, x, mean[i], factor[i], relu ? shift[i] : 0.0F);
      return Formula()(arrived, x, mean[i], factor[i], a[i], b[i]);
    }
  };
  template <int kWidth>
  SF_HOST_DEVICE Of<kWidth> of_channels(std::int64_t c) const {
    Of<kWidth> channels{load_floats<kWidth>(of.mean + c),
                        load_floats<kWidth>(of.factor + c),
                        {},
                        load_floats<kWidth>(a + c),
                        load_floats<kWidth>(b + c)};
    if (relu) channels.shift = load_floats<kWidth>(of.shift + c);
    return channels;
  }
};

}  // namespace sectionflow::gpu

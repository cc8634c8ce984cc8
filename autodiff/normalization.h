#pragma once

#include <functional>
#include <vector>

#include "autodiff/gradient_registry.h"

namespace sectionflow {

/// Throws: ArgumentError (SF-E031) where the loss depends on what a norm has beside y, its statistics.
void check_no_loss_of_statistics(const GradientRequest& r);

/// A norm n = (x - mean) rstd whose gradient is differentiated: what is computed with, in f32. `scale` broadcasts to x,
/// rstd and normal are like it.
struct NormTerms {
  Value dy, x, scale, rstd;
  Value normal;                           ///< n
  std::function<Value(Value)> means;      ///< of what is normalised together, repeated along it
  std::function<Value(Value)> projected;  ///< rstd (v - mean v - n mean(v n)): how a change of n becomes one of x
  std::function<Value(Value)> along;      ///< one number a channel as what broadcasts to x
  std::function<Value(Value)> sums;       ///< one number a channel: the sum over all else
  /// What remains of a gradient of x where the statistics may be no functions of it, and of one of dy where y was cut
  /// off.
  std::function<Value(Value)> through_statistics = [](Value v) { return v; };
  std::function<Value(Value)> kept = [](Value v) { return v; };
};

/// The gradients of the inputs dy, x, scale and statistics of a norm's gradient. With h = dy scale:
/// dx = rstd (h - mean h - n mean(h n)), dscale = sum dy n, dshift = sum dy, where n and rstd are functions of x. The
/// gradients of dx, dscale and dshift are the request's, of which any may be absent. `projected` is symmetric. Of
/// rms_norm, which has neither mean nor shift, it is without the mean of v, and all that follows is the same.
std::vector<Value> gradients_of_norm_gradient(const GradientRequest& r, const NormTerms& t);

}  // namespace sectionflow

#pragma once

#include <cstdint>
#include <vector>

#include "planning/crossing.h"
#include "planning/problem.h"

namespace sectionflow::planning {

/// What a link may have taken from device memory by the first execution of an operation, as copies take whole values
/// and none before it is made.
class WholeCopies {
 public:
  /// `problem` must outlive this. REQUIRES: the link has a rate.
  WholeCopies(const Problem& problem, const Link& link);

  /// A few of the first moments before which no plan has made some value.
  const std::vector<double>& moments() const { return moments_; }
  /// The problem with what may be made before the moment taking no bytes, as if it had left for nothing.
  Problem without_earlier(double moment) const;

  /// Bytes for wanted values, in device memory or away, where only those made from a moment on take any.
  struct Capacity {
    double bytes = 0, unit = 0;  ///< without more seconds; by how much it grows
    double seconds_of_unit = 0;  ///< how much later than at the earliest the operation starts with a unit more
  };
  Capacity capacity(const Crossing& crossing, std::int64_t budget, double moment) const;

 private:
  const Problem& problem_;
  const Link link_;
  double unit_ = 1;           // that the bytes of all values are multiples of
  std::vector<double> made_;  // of each value: seconds that pass before it is made, at least
  std::vector<double> moments_;
};

}  // namespace sectionflow::planning

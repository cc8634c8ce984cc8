#include "fit/drift_watch.h"

#include <algorithm>

namespace sectionflow {

bool DriftWatch::add(double seconds, int in_a_row) {
  if (passed_over_ < kNotCounted) {
    ++passed_over_;
    return false;
  }
  if (!is_known_) {
    first_.push_back(seconds);
    if (first_.size() < kFirst) return false;
    std::nth_element(first_.begin(), first_.begin() + kFirst / 2, first_.end());
    expected_ = std::max(expected_, first_[kFirst / 2]);
    is_known_ = true;
    first_ = {};
    return false;
  }
  if (seconds <= kTolerance * expected_) {
    too_long_ = 0;
    too_long_seconds_ = 0;
    return false;
  }
  ++too_long_;
  too_long_seconds_ += seconds;
  return too_long_ >= in_a_row;
}

double DriftWatch::measured_seconds() const {
  return too_long_ == 0 ? 0 : too_long_seconds_ / too_long_;
}

}  // namespace sectionflow

#include "planning/whole_copies.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sectionflow::planning {
namespace {

/// For each operation, the seconds of it and of all whose outputs it depends on.
std::vector<double> seconds_until(const Problem& problem) {
  std::vector<double> until(problem.operations.size(), 0);
  std::vector<std::size_t> seen_by(problem.operations.size(), problem.operations.size());
  std::vector<int> open;
  for (std::size_t v = 0; v < problem.operations.size(); ++v) {
    open = {static_cast<int>(v)};
    seen_by[v] = v;
    while (!open.empty()) {
      const Operation& operation = problem.operations[at(open.back())];
      open.pop_back();
      until[v] += operation.seconds;
      for (const int input : operation.inputs) {
        const int producer = problem.values[at(input)].producer;
        if (producer < 0 || seen_by[at(producer)] == v) continue;
        seen_by[at(producer)] = v;
        open.push_back(producer);
      }
    }
  }
  return until;
}

/// Rounding must not take a unit away that is there.
double whole_units(double units) {
  return std::floor(units * (1 + 1e-12) + 1e-9);
}

}  // namespace

WholeCopies::WholeCopies(const Problem& problem, const Link& link) : problem_(problem), link_(link) {
  constexpr std::size_t kMostMoments = 16;
  std::int64_t unit = 0;
  const std::vector<double> until = seconds_until(problem);
  for (const PlannedValue& value : problem.values) {
    unit = std::gcd(unit, value.bytes);
    made_.push_back(value.producer < 0 ? 0 : until[at(value.producer)]);
  }
  unit_ = static_cast<double>(std::max<std::int64_t>(unit, 1));
  moments_ = made_;
  std::ranges::sort(moments_);
  moments_.erase(std::unique(moments_.begin(), moments_.end()), moments_.end());
  moments_.resize(std::min(moments_.size(), kMostMoments));
}

Problem WholeCopies::without_earlier(double moment) const {
  Problem late = problem_;
  for (std::size_t i = 0; i < made_.size(); ++i) {
    if (made_[i] < moment) late.values[i].bytes = 0;
  }
  return late;
}

WholeCopies::Capacity WholeCopies::capacity(const Crossing& crossing, std::int64_t budget, double moment) const {
  const double units_here = whole_units((static_cast<double>(budget) - crossing.forced) / unit_);
  const double fit = link_.bytes_per_second * (crossing.seconds_before - moment) / unit_;
  const double units_away = whole_units(std::clamp(fit, 0.0, 4.0 * kMostProblemBytes / unit_));
  return {(units_here + units_away) * unit_, unit_,
          (units_away + 1 - std::min(fit, units_away + 1)) * unit_ / link_.bytes_per_second};
}

}  // namespace sectionflow::planning

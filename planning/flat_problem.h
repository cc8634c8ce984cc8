#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planning/problem.h"

namespace sectionflow::planning {

/// An index as containers count.
constexpr std::size_t pos(int index) {
  return static_cast<std::size_t>(index);
}

/// A problem as loops read it: lists side by side.
struct FlatProblem {
  explicit FlatProblem(const Problem& problem);

  std::span<const int> inputs_of(int operation) const { return slice(inputs, input_begin, operation); }
  std::span<const int> outputs_of(int operation) const { return slice(outputs, output_begin, operation); }
  std::span<const int> before(int operation) const { return slice(before_, before_begin_, operation); }
  std::span<const int> after(int operation) const { return slice(after_, after_begin_, operation); }
  /// Before the execution of which all of this one come, and the other way round: of Problem::ends.
  std::span<const int> ended_by(int operation) const { return slice(ended_by_, ended_by_begin_, operation); }
  std::span<const int> ends(int operation) const { return slice(ends_, ends_begin_, operation); }
  std::span<const Overwrite> overwrites_of(int operation) const {
    const auto i = static_cast<std::size_t>(operation);
    return {overwrites_.data() + overwrites_begin_[i], overwrites_.data() + overwrites_begin_[i + 1]};
  }
  bool has_overwrites() const { return !overwrites_.empty(); }
  int num_operations() const { return static_cast<int>(seconds.size()); }
  int num_values() const { return static_cast<int>(bytes.size()); }

  std::vector<double> seconds, seconds_again;
  std::vector<std::int64_t> workspace;
  std::vector<std::uint8_t> repeatable;
  std::vector<int> input_begin, inputs, output_begin, outputs;
  std::vector<std::int64_t> bytes;
  std::vector<int> producer;
  std::vector<std::uint8_t> at_end, movable;

 private:
  static std::span<const int> slice(const std::vector<int>& list, const std::vector<int>& begin, int index) {
    const auto i = static_cast<std::size_t>(index);
    return {list.data() + begin[i], list.data() + begin[i + 1]};
  }
  std::vector<int> before_begin_, before_, after_begin_, after_;  // of Problem::order and ends
  std::vector<int> ended_by_begin_, ended_by_, ends_begin_, ends_;
  std::vector<int> overwrites_begin_;
  std::vector<Overwrite> overwrites_;
};

}  // namespace sectionflow::planning

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

/// A problem as loops read it: lists side by side. With copies, each value that may be offloaded has two operations
/// more, behind those of the problem, that take no seconds of executions: one that reads it (copies it out) and one
/// that writes it (copies it in), perhaps often.
struct FlatProblem {
  explicit FlatProblem(const Problem& problem, bool with_copies = false);

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
  int num_operations() const { return num_operations_; }
  int num_with_copies() const { return static_cast<int>(seconds.size()); }
  bool has_copies() const { return num_with_copies() > num_operations_; }
  bool is_copy(int operation) const { return operation >= num_operations_; }
  bool is_copy_in(int operation) const { return is_copy(operation) && (operation - num_operations_) % 2 != 0; }
  /// Of a copy, its value; of a value, its copies, or -1 where it is never offloaded.
  int copied_by(int copy) const { return copied_[static_cast<std::size_t>(copy - num_operations_) / 2]; }
  int copy_out_of(int value) const { return copy_out_[static_cast<std::size_t>(value)]; }
  int copy_in_of(int value) const { return copy_out_of(value) < 0 ? -1 : copy_out_of(value) + 1; }
  int num_values() const { return static_cast<int>(bytes.size()); }

  std::vector<double> seconds, seconds_again;
  std::vector<std::int64_t> workspace;
  std::vector<std::uint8_t> repeatable;
  std::vector<int> input_begin, inputs, output_begin, outputs;
  std::vector<std::int64_t> bytes;
  std::vector<int> producer;
  std::vector<std::uint8_t> at_end, movable;

 private:
  void add_copies(const Problem& problem, std::vector<std::vector<int>>& ins, std::vector<std::vector<int>>& outs);
  static std::span<const int> slice(const std::vector<int>& list, const std::vector<int>& begin, int index) {
    const auto i = static_cast<std::size_t>(index);
    return {list.data() + begin[i], list.data() + begin[i + 1]};
  }
  std::vector<int> before_begin_, before_, after_begin_, after_;  // of Problem::order and ends
  std::vector<int> ended_by_begin_, ended_by_, ends_begin_, ends_;
  std::vector<int> overwrites_begin_;
  std::vector<Overwrite> overwrites_;
  std::vector<int> copied_, copy_out_;
  int num_operations_ = 0;
};

}  // namespace sectionflow::planning

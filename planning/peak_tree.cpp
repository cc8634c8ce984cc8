#include "planning/peak_tree.h"

#include <algorithm>
#include <limits>

#include "planning/flat_problem.h"

namespace sectionflow::planning {
namespace {
constexpr unsigned kFan = 16;
constexpr int kAll = kFan;

// Loops over all children of a node, with conditions in place of ends: they become a few vector instructions.

template <class Number>
Number largest(const Number* numbers) {
  Number most = numbers[0];
#pragma omp simd reduction(max : most)
  for (int i = 0; i < kAll; ++i) most = std::max(most, numbers[i]);
  return most;
}

/// Of those in (after, before).
template <class Number>
Number largest_between(const Number* numbers, int after, int before) {
  constexpr Number kLow = std::numeric_limits<Number>::min();
  Number most = kLow;
#pragma omp simd reduction(max : most)
  for (int i = 0; i < kAll; ++i) {
    const Number number = numbers[i];
    const bool is_between = (i > after) & (i < before);
    most = std::max(most, is_between ? number : kLow);
  }
  return most;
}

/// Adds to those in (after, before).
template <class Number>
void add_between(Number* numbers, int after, int before, Number number) {
#pragma omp simd
  for (int i = 0; i < kAll; ++i) {
    const bool is_between = (i > after) & (i < before);
    numbers[i] += is_between ? number : 0;
  }
}

template <class Number>
void put(Number* numbers, int index, Number number) {
#pragma omp simd
  for (int i = 0; i < kAll; ++i) {
    const Number old = numbers[i];
    numbers[i] = i == index ? number : old;
  }
}

}  // namespace

template <class Number>
PeakTree<Number>::PeakTree(int size) {
  constexpr Number kNone = std::numeric_limits<Number>::min() / 2;  // less than all, with anything added
  std::size_t count = pos(size), added = 0;
  do {
    const std::size_t nodes = (count + kFan - 1) / kFan;
    levels_.push_back({tops_.size(), added});
    const std::size_t first = tops_.size();
    tops_.resize(first + nodes, Children{});
    for (std::size_t i = count; i < nodes * kFan; ++i) tops_[first + i / kFan].at[i % kFan] = kNone;
    if (first > 0) added += nodes;
    count = nodes;
  } while (count > 1);
  added_.resize(added, Children{});
}

template <class Number>
void PeakTree<Number>::add(int first, int last, Number number) {
  auto left = static_cast<unsigned>(first) / kFan, right = static_cast<unsigned>(last) / kFan;
  const int from = static_cast<int>(static_cast<unsigned>(first) % kFan);
  const int to = static_cast<int>(static_cast<unsigned>(last) % kFan);
  std::size_t level = 0;
  Number most;
  if (left == right) {
    add_between(tops_[left].at, from - 1, to + 1, number);
    most = largest(tops_[left].at);
  } else {
    add_between(tops_[left].at, from - 1, kFan, number);
    add_between(tops_[right].at, -1, to + 1, number);
    Number most_left = largest(tops_[left].at), most_right = largest(tops_[right].at);
    // Two ways up to where they meet: what hangs between them is covered whole.
    for (;;) {
      const Level& here = levels_[++level];
      const auto child_left = static_cast<int>(left % kFan), child_right = static_cast<int>(right % kFan);
      left /= kFan;
      right /= kFan;
      Children& tops_left = tops_[here.tops + left];
      Children& tops_right = tops_[here.tops + right];
      Children& added_left = added_[here.added + left];
      Children& added_right = added_[here.added + right];
      put(tops_left.at, child_left, most_left + added_left.at[child_left]);
      put(tops_right.at, child_right, most_right + added_right.at[child_right]);
      if (left == right) {
        add_between(added_left.at, child_left, child_right, number);
        add_between(tops_left.at, child_left, child_right, number);
        most = largest(tops_left.at);
        break;
      }
      add_between(added_left.at, child_left, kFan, number);
      add_between(tops_left.at, child_left, kFan, number);
      add_between(added_right.at, -1, child_right, number);
      add_between(tops_right.at, -1, child_right, number);
      most_left = largest(tops_left.at);
      most_right = largest(tops_right.at);
    }
  }
  while (++level < levels_.size()) {
    const Level& here = levels_[level];
    const auto child = static_cast<int>(left % kFan);
    left /= kFan;
    Children& tops = tops_[here.tops + left];
    put(tops.at, child, most + added_[here.added + left].at[child]);
    most = largest(tops.at);
  }
  peak_ = most;
}

template <class Number>
Number PeakTree<Number>::most(int first, int last) const {
  auto left = static_cast<unsigned>(first) / kFan, right = static_cast<unsigned>(last) / kFan;
  const int from = static_cast<int>(static_cast<unsigned>(first) % kFan);
  const int to = static_cast<int>(static_cast<unsigned>(last) % kFan);
  std::size_t level = 0;
  Number most;
  if (left == right) {
    most = largest_between(tops_[left].at, from - 1, to + 1);
  } else {
    Number most_left = largest_between(tops_[left].at, from - 1, kFan);
    Number most_right = largest_between(tops_[right].at, -1, to + 1);
    for (;;) {
      const Level& here = levels_[++level];
      const auto child_left = static_cast<int>(left % kFan), child_right = static_cast<int>(right % kFan);
      left /= kFan;
      right /= kFan;
      const Children& tops_left = tops_[here.tops + left];
      const Children& tops_right = tops_[here.tops + right];
      most_left += added_[here.added + left].at[child_left];
      most_right += added_[here.added + right].at[child_right];
      if (left == right) {
        most = std::max({most_left, most_right, largest_between(tops_left.at, child_left, child_right)});
        break;
      }
      most_left = std::max(most_left, largest_between(tops_left.at, child_left, kFan));
      most_right = std::max(most_right, largest_between(tops_right.at, -1, child_right));
    }
  }
  while (++level < levels_.size()) {
    const auto child = static_cast<int>(left % kFan);
    left /= kFan;
    most += added_[levels_[level].added + left].at[child];
  }
  return most;
}

template <class Number>
int PeakTree<Number>::peak_at() const {
  std::size_t node = 0;
  for (std::size_t level = levels_.size(); level-- > 0;) {
    const Number* const numbers = tops_[levels_[level].tops + node].at;
    node = node * kFan + static_cast<std::size_t>(std::max_element(numbers, numbers + kFan) - numbers);
  }
  return static_cast<int>(node);
}

template class PeakTree<std::int32_t>;
template class PeakTree<std::int64_t>;

}  // namespace sectionflow::planning

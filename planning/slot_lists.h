#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "planning/flat_problem.h"

namespace sectionflow::planning {

/// Lists of slots, ascending, most of them short. Each stands between a -1 and at least one copy of the slot behind
/// all, in lines of eight, which are compared and moved as a whole: no branch depends on where in a list something is.
class SlotLists {
 public:
  /// So many empty lists of slots below `end`.
  void assign(int count, int end) {
    end_ = end;
    lists_.resize(pos(count));
    lines_.assign(pos(count), empty_line());
    for (int i = 0; i < count; ++i) lists_[pos(i)] = {i, 1, 0};
  }
  std::span<const int> operator[](int list) const {
    return {slots(lists_[pos(list)]) + 1, pos(lists_[pos(list)].size)};
  }
  int size(int list) const { return lists_[pos(list)].size; }

  struct Around {
    int before, after;
  };
  /// The last one below `slot` and the first from there on; -1 and the end where there is none.
  Around around(int list, int slot) const {
    const int* from = first_from(list, slot);
    return {from[-1], from[0]};
  }
  int last_below(int list, int slot) const { return first_from(list, slot)[-1]; }
  // The same as if `own`, which is there, were not.
  Around around_own(int list, int own) const {
    const int* from = first_from(list, own);
    return {from[-1], from[1]};
  }
  int last_below_but(int list, int slot, int own) const {
    const int* from = first_from(list, slot);
    return from[-1] == own ? from[-2] : from[-1];
  }

  void insert(int list, int slot) {
    if (lists_[pos(list)].size + 2 >= kLine * lists_[pos(list)].lines) lengthen(lists_[pos(list)]);
    List& longer = lists_[pos(list)];
    ++longer.size;
    Line* line = &lines_[pos(longer.first_line)] + longer.lines - 1;
    for (int left = longer.lines; left > 0; --left, --line) {
      Eight here;
      line->get(here);
      Eight before = __builtin_shufflevector(here, here, 0, 0, 1, 2, 3, 4, 5, 6);
      if (left > 1) before[0] = line[-1].slots[kLine - 1];
      const Eight moved = before > slot ? before : slot - Eight{};
      line->put(here < moved ? here : moved);
    }
  }
  /// REQUIRES: it is there.
  void erase(int list, int slot) {
    List& shorter = lists_[pos(list)];
    --shorter.size;
    Line* line = &lines_[pos(shorter.first_line)];
    for (int left = shorter.lines; left > 0; --left, ++line) {
      Eight here;
      line->get(here);
      Eight behind = __builtin_shufflevector(here, here, 1, 2, 3, 4, 5, 6, 7, 7);
      if (left > 1) behind[kLine - 1] = line[1].slots[0];
      line->put(here < slot ? here : behind);
    }
  }

 private:
  static constexpr int kLine = 8;
  using Eight [[gnu::vector_size(kLine * sizeof(int))]] = int;
  struct alignas(kLine * sizeof(int)) Line {
    int slots[kLine];
    // By reference: how a function hands over so long a vector depends on the instruction set.
    void get(Eight& all) const { std::memcpy(&all, slots, sizeof(all)); }
    void put(const Eight& all) { std::memcpy(slots, &all, sizeof(all)); }
  };
  struct alignas(4 * sizeof(int)) List {
    int first_line = 0, lines = 1, size = 0;
  };
  Line empty_line() const {
    Line line;
    std::fill(line.slots, line.slots + kLine, end_);
    line.slots[0] = -1;
    return line;
  }
  const int* slots(const List& list) const { return lines_[pos(list.first_line)].slots; }
  int* slots(const List& list) { return lines_[pos(list.first_line)].slots; }
  const int* first_from(int list, int slot) const {
    constexpr int kManyLines = 16;
    const List& sought = lists_[pos(list)];
    const int* all = slots(sought);
    if (sought.lines > kManyLines) return std::lower_bound(all, all + sought.size + 1, slot);
    int count = 0;
    for (int line = 0; line < sought.lines; ++line) {
      for (int i = 0; i < kLine; ++i) count += all[kLine * line + i] < slot ? 1 : 0;
    }
    return all + count;
  }
  /// Moves the list behind all others, to twice as many lines.
  void lengthen(List& list) {
    const std::size_t first = lines_.size(), count = pos(list.lines);
    Line empty = empty_line();
    empty.slots[0] = end_;
    lines_.resize(first + 2 * count, empty);
    std::copy_n(lines_.begin() + list.first_line, count, lines_.begin() + static_cast<std::ptrdiff_t>(first));
    list.first_line = static_cast<int>(first);
    list.lines *= 2;
  }

  int end_ = 0;
  std::vector<List> lists_;
  std::vector<Line> lines_;
};

}  // namespace sectionflow::planning

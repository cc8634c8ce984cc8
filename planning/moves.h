#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "planning/sequence.h"

namespace sectionflow::planning {

/// Random numbers that are the same on every machine. Source: Steele, Lea and Flood 2014, SplitMix64.
class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// 0 .. count - 1.
  int below(int count) { return static_cast<int>(((next() >> 32) * static_cast<std::uint64_t>(count)) >> 32); }
  /// In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

/// Random changes to orders of executions, and of copies where the problem has them.
class Moves {
 public:
  /// All of these must outlive this.
  Moves(const FlatProblem& problem, bool order_fixed, Sequence& sequence, SplitMix& random);

  /// Makes one; false where it did not get to its end, so that what it has done is to be undone.
  bool propose();

  /// How often no slot was left between two neighbours since this was asked for `spread`.
  int crowded() const { return crowded_; }
  void spread();

 private:
  // Executions (moves.cpp).
  bool move_execution();
  int empty_between(int below, int above);
  int empty_below(int slot) { return empty_between(sequence_.taken_below(slot), slot); }
  int random_taken() { return sequence_.taken()[pos(random_.below(static_cast<int>(sequence_.taken().size())))]; }
  bool may_repeat(int operation) const { return operation >= 0 && problem_.repeatable[pos(operation)] != 0; }
  std::pair<int, int> random_reading();
  bool repeat_before_reader();
  bool is_ended(int operation, int slot) const;
  void repeat_with_ancestors(int operation, int slot);
  void repeat(int operation, int slot, int floor);
  bool may_remove(int operation, int slot) const;
  std::pair<int, int> random_repeat();
  bool take_repeat_away();
  void take_away(int operation, int slot);
  std::pair<int, int> window(int operation, std::size_t index) const;
  bool shift();
  bool shift_within(int slot, int low, int high);

  // Copies (copy_moves.cpp).
  bool is_copied_out(int value, int slot) const;
  bool move_copy();
  int random_copy(bool in_alone);
  bool copy(int value, int used, int reader);
  bool copy_what_stays();
  bool keep_what_is_copied();
  bool copy_what_is_repeated();
  bool repeat_what_is_copied();
  bool shift_copy(int slot);
  void take_copy_away(int copy_in, int slot);

  const FlatProblem& problem_;
  const bool order_fixed_;
  Sequence& sequence_;
  SplitMix& random_;
  int crowded_ = 0, chance_of_ancestors_ = 0, repeats_left_ = 0;
  std::vector<int> at_end_;
};

}  // namespace sectionflow::planning

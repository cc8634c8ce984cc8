#pragma once

#include <utility>
#include <vector>

#include "base/split_mix.h"
#include "planning/sequence.h"

namespace sectionflow::planning {

/// Random changes to orders of executions, and of copies where the problem has them.
class Moves {
 public:
  /// All of these must outlive this. `budget`: bytes, beyond which memory is short.
  Moves(const FlatProblem& problem, bool order_fixed, std::int64_t budget, Sequence& sequence, SplitMix& random);

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
  bool repeat_ancestors(int operation, int slot, int floor);
  bool may_remove(int operation, int slot) const;
  std::pair<int, int> random_repeat();
  bool take_repeat_away();
  void take_away(int operation, int slot);
  bool exchange();
  bool relieve(int slot);
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
  const std::int64_t budget_;
  Sequence& sequence_;
  SplitMix& random_;
  int crowded_ = 0, chance_of_ancestors_ = 0, repeats_left_ = 0;
  std::vector<int> at_end_;
};

}  // namespace sectionflow::planning

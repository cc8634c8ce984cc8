#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "planning/flat_problem.h"
#include "planning/peak_tree.h"

namespace sectionflow::planning {

/// Executions first .. last of an order, both included, during which a value that is read later is in host memory
/// alone.
struct Absence {
  int value = 0, first = 0, last = 0;
};

/// Executions in order, on slots with gaps between them, and the memory that they need when each copy of a value lives
/// from the execution that writes it to its last reader before the next; that reader's output may take its bytes, as
/// Operation::overwrites says, but for values with absences. What is inserted and removed since `commit`
/// can be undone. The order decides all: a copy never outlives its use, and a value is written again by each execution
/// of its producer, and each time it is copied in. Copies between memories (FlatProblem) are executions too; a value
/// that is copied out anywhere is not written over.
class Sequence {
 public:
  /// Slot 0 is before every execution: given values are written there. Slot `num_slots - 1` is the plan's end.
  Sequence(const FlatProblem& problem, std::span<const int> order, std::span<const Absence> absences = {});

  /// Begins anew with the same order in evenly spaced slots.
  void spread();
  /// The operations in their order.
  std::vector<int> order() const;
  void order(std::vector<int>& operations) const;
  /// In executions of that order.
  std::vector<Absence> absences() const;

  /// An execution in the empty slot. REQUIRES: each input has been written before it.
  void insert(int operation, int slot);
  /// REQUIRES: `is_removable`, and of a copy out that no copy in is left.
  void remove(int operation, int slot);
  /// Whether another execution serves all that read what this one wrote.
  bool is_removable(int operation, int slot) const;
  /// Whether nothing reads what this execution writes.
  bool is_unread(int operation, int slot) const;

  void commit();
  void undo();

  /// Whether since `commit` a value has been changed where it is absent: such a change must be undone.
  bool is_broken() const { return broken_; }

  double cost() const { return cost_; }
  /// Most bytes at any slot.
  std::int64_t peak();
  /// The first slot with so many. REQUIRES: nothing has changed since `peak()`.
  int peak_slot() const { return tree_.peak_at(); }
  /// Of what was there at the last `commit` or `undo`.
  std::int64_t peak() const { return tree_.peak(); }

  int num_slots() const { return num_slots_; }
  int operation_at(int slot) const { return slot_operation_[static_cast<std::size_t>(slot)]; }
  const std::vector<int>& executions(int operation) const { return executions_[static_cast<std::size_t>(operation)]; }
  /// Slots of the value's readers, ascending.
  const std::vector<int>& readers(int value) const { return readers_[static_cast<std::size_t>(value)]; }
  /// Slots with an execution, in no order.
  const std::vector<int>& taken() const { return taken_; }
  /// Operations that are executed more than once, in no order.
  const std::vector<int>& repeated() const { return repeated_; }
  /// The nearest slot below or above `slot` that has an execution, or 0 and num_slots - 1.
  int taken_below(int slot) const;
  int taken_above(int slot) const;

  /// The slot at which the copy that is read at `slot` was written, and the last that reads that copy (itself where
  /// none does). REQUIRES: written before `slot`.
  int written_before(int value, int slot) const;
  /// The last slot before `slot` at which the value is read or written; -1 where it is not written before.
  int used_before(int value, int slot) const;
  /// The first slot in which the value is written; -1: none.
  int first_written(int value) const { return writes_[pos(value)].empty() ? -1 : writes_[pos(value)].front(); }
  /// The first reader after `slot` of what is written there; num_slots where there is none.
  int next_reader(int value, int slot) const;
  /// The slot up to which the copy that is there before `slot` lives.
  int lives_until(int value, int slot) const;

 private:
  struct Entry {
    int operation, slot;
    bool inserted;
  };
  struct Stretch {
    int first, last;
    std::int64_t bytes;
  };
  /// Where a value is written around a slot in which it is not: -1 and num_slots where there is none.
  struct Around {
    int before, after;
  };
  void assign(std::span<const int> order, std::span<const Absence> absences);
  void assign_absences(std::span<const int> slots, std::span<const Absence> absences);
  bool breaks_absence(int operation, int slot, bool inserted) const;
  Around writes_around(int value, int slot) const;
  /// The last reader in (after, before), or `after`.
  int last_reader(int value, int after, int before) const;
  void change(int operation, int slot, std::int64_t sign);
  void link(int operation, int slot);
  void unlink(int operation, int slot);
  void do_insert(int operation, int slot);
  void do_remove(int operation, int slot);
  void stretch(int first, int last, std::int64_t bytes);
  std::int64_t overwritten(int slot);
  void count_overwritten(int slot);
  void count_all_overwritten(int operation, int slot);

  const FlatProblem& problem_;
  int num_slots_ = 0;
  std::vector<int> slot_operation_, place_in_taken_, place_in_repeated_;
  std::vector<std::uint64_t> taken_bits_;
  std::vector<std::vector<int>> executions_, readers_, writes_;  // slots, ascending; a given value is written in 0
  std::vector<int> taken_, repeated_;
  PeakTree tree_{2};
  std::vector<Stretch> pending_, applied_;
  std::vector<Entry> journal_;
  std::vector<std::vector<Absence>> absent_;  // of each value, in slots
  bool has_absences_ = false, broken_ = false;
  double cost_ = 0, committed_cost_ = 0;
  // What is saved at each slot by writing over inputs; what it was before, since `commit`; and where it may change.
  std::vector<std::int64_t> overwritten_;
  std::vector<std::pair<int, std::int64_t>> overwritten_before_;
  std::vector<int> last_readers_;
  std::vector<Overwrite> chosen_;
};

}  // namespace sectionflow::planning

#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "planning/flat_problem.h"
#include "planning/memory_profile.h"
#include "planning/slot_lists.h"

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
  // To insert, and to insert in one slot and remove from another, but in no list before `link_deferred`, `peak` or
  // `commit`: costs little where it is undone. Until then nothing but `is_broken`, `cost` and `least_peak` may be
  // asked.
  void insert_deferred(int operation, int slot);
  void shift_deferred(int operation, int from, int to);
  void link_deferred() {
    if (deferred_.operation >= 0) link_both();
  }
  /// REQUIRES: `is_removable`, and of a copy out that no copy in is left.
  void remove(int operation, int slot);
  /// Whether another execution serves all that read what this one wrote.
  bool is_removable(int operation, int slot) const;
  /// Whether nothing reads what this execution writes.
  bool is_unread(int operation, int slot) const;

  void commit();
  void undo() {
    // Most moves end before anything is changed.
    if (!journal_.empty() || deferred_.operation >= 0) undo_all();
  }

  /// Whether since `commit` a value has been changed where it is absent: such a change must be undone.
  bool is_broken() const { return broken_; }

  double cost() const { return cost_; }
  /// A number of bytes that `peak` is no less than: the most where there are more than at the last `commit`.
  std::int64_t least_peak() { return unit_ * memory_.least_peak(); }
  /// Most bytes at any slot.
  std::int64_t peak();
  /// The first slot with so many. REQUIRES: nothing has changed since `peak()`.
  int peak_slot() const { return memory_.peak_slot(); }
  /// Of what was there at the last `commit` or `undo`.
  std::int64_t peak() const { return unit_ * memory_.peak(); }

  int num_slots() const { return num_slots_; }
  int operation_at(int slot) const { return slot_operation_[static_cast<std::size_t>(slot)]; }
  std::span<const int> executions(int operation) const { return executions_[operation]; }
  /// Slots of the value's readers, ascending.
  std::span<const int> readers(int value) const { return readers_[value]; }
  /// Slots with an execution, in no order.
  const std::vector<int>& taken() const { return taken_; }
  /// Operations that are executed more than once, in no order.
  const std::vector<int>& repeated() const { return repeated_; }
  /// The nearest slot below or above `slot` that has an execution, or 0 and num_slots - 1.
  int taken_below(int slot) const {
    std::size_t word = pos(slot) / 64;
    std::uint64_t bits = taken_bits_[word] & ((std::uint64_t{1} << (slot % 64)) - 1);
    while (bits == 0 && word > 0) bits = taken_bits_[--word];
    return bits == 0 ? 0 : static_cast<int>(64 * word) + 63 - std::countl_zero(bits);
  }
  int taken_above(int slot) const {
    std::size_t word = pos(slot) / 64;
    std::uint64_t bits = taken_bits_[word] & ~((std::uint64_t{2} << (slot % 64)) - 1);
    while (bits == 0 && word + 1 < taken_bits_.size()) bits = taken_bits_[++word];
    return bits == 0 ? num_slots_ - 1 : static_cast<int>(64 * word) + std::countr_zero(bits);
  }

  /// The slot at which the copy that is read at `slot` was written, and the last that reads that copy (itself where
  /// none does). REQUIRES: written before `slot`.
  int written_before(int value, int slot) const { return writes_.last_below(value, slot); }
  /// The last slot before `slot` at which the value is read or written; -1 where it is not written before.
  int used_before(int value, int slot) const {
    const int written = written_before(value, slot);
    return written < 0 ? -1 : last_reader(value, written, slot);
  }
  /// The first slot in which the value is written; -1: none.
  int first_written(int value) const { return writes_[value].empty() ? -1 : writes_[value].front(); }
  /// The first reader after `slot` of what is written there; num_slots where there is none.
  int next_reader(int value, int slot) const { return readers_.around(value, slot + 1).after; }
  /// The slot up to which the copy that is there before `slot` lives.
  int lives_until(int value, int slot) const {
    const SlotLists::Around around = writes_.around(value, slot);
    // An execution in the slot itself writes a new copy.
    return last_reader(value, around.before, around.after);
  }

 private:
  struct Entry {
    int operation, slot;
    bool inserted;
  };
  void assign(std::span<const int> order, std::span<const Absence> absences);
  void assign_absences(std::span<const int> slots, std::span<const Absence> absences);
  bool breaks_absence(int operation, int slot, bool inserted) const;
  void choose_unit();
  /// The last reader in (after, before), or `after`.
  int last_reader(int value, int after, int before) const {
    return std::max(readers_.last_below(value, before), after);
  }
  void change(int operation, int slot, std::int64_t sign);
  void change_of_output(int output, int slot, SlotLists::Around around, std::int64_t sign);
  void change_of_removal(int operation, int from, int to);
  void link(int operation, int slot);
  void unlink(int operation, int slot);
  void count_insertion(int operation, int slot);
  void do_insert(int operation, int slot);
  void do_remove(int operation, int slot);
  void forget_changes();
  void undo_all();
  void link_both();
  std::int64_t overwritten(int slot);
  void count_overwritten(int slot);
  void count_all_overwritten(int operation, int slot);

  const FlatProblem& problem_;
  int num_slots_ = 0;
  std::vector<int> slot_operation_, place_in_taken_, place_in_repeated_;
  std::vector<std::uint64_t> taken_bits_;
  SlotLists executions_, readers_, writes_;  // a given value is written in 0
  std::vector<int> taken_, repeated_;
  // Memory is counted in a unit of which all sizes are multiples.
  std::int64_t unit_ = 1, most_units_ = 0;
  std::vector<std::int64_t> units_, workspaces_;  // of each value, of each operation
  MemoryProfile memory_{1, 0};
  std::vector<Entry> journal_;
  struct Deferred {
    int operation = -1, from = -1, to = -1;
  } deferred_;                                // as `insert_deferred` says
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

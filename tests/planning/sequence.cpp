#include "planning/sequence.h"

#include <gtest/gtest.h>

#include <span>

#include "planning/evaluate.h"
#include "planning/offload.h"
#include "tests/planning/every_plan.h"

namespace sectionflow::planning {
namespace {

/// What a sequence keeps from change to change, against the same from nothing.
class Changes {
 public:
  Changes(const Problem& problem, RandomProblems& random)
      : problem_(problem), flat_(problem), random_(random), sequence_(flat_, given(problem)) {}

  /// Executes something again, or no longer.
  void change() {
    if (random_.draw(0, 2) > 0) {
      insert();
    } else {
      remove();
    }
  }
  void commit() {
    sequence_.commit();
    changed_ = false;
  }
  void undo() {
    sequence_.undo();
    changed_ = false;
  }
  bool has_changed() const { return changed_; }

  void expect_as_from_nothing() {
    const std::vector<int> order = sequence_.order();
    Sequence fresh(flat_, order);
    ASSERT_EQ(sequence_.peak(), fresh.peak());
    ASSERT_NEAR(sequence_.cost(), fresh.cost(), 1e-9);
    const Evaluation evaluation = evaluate(problem_, plan_of(flat_, order));
    ASSERT_TRUE(evaluation.ok) << evaluation.fault;
    ASSERT_EQ(sequence_.peak(), evaluation.peak);
    ASSERT_NEAR(sequence_.cost(), evaluation.cost, 1e-9);
  }

 private:
  static std::vector<int> given(const Problem& problem) {
    std::vector<int> order;
    for (int v = 0; v < static_cast<int>(problem.operations.size()); ++v) order.push_back(v);
    return order;
  }
  void insert() {
    const int operation = random_.draw(0, flat_.num_operations() - 1);
    const int slot = random_.draw(1, sequence_.num_slots() - 2);
    if (flat_.repeatable[pos(operation)] == 0 || sequence_.operation_at(slot) >= 0) return;
    for (const int input : flat_.inputs_of(operation)) {
      if (sequence_.written_before(input, slot) < 0) return;
    }
    sequence_.insert(operation, slot);
    changed_ = true;
  }
  void remove() {
    const int operation = random_.draw(0, flat_.num_operations() - 1);
    const std::span<const int> slots = sequence_.executions(operation);
    const int slot = slots[static_cast<std::size_t>(random_.draw(0, static_cast<int>(slots.size()) - 1))];
    if (!sequence_.is_removable(operation, slot)) return;
    sequence_.remove(operation, slot);
    changed_ = true;
  }

  const Problem& problem_;
  const FlatProblem flat_;
  RandomProblems& random_;
  Sequence sequence_;
  bool changed_ = false;
};

constexpr std::uint64_t kSequenceSeed = 5;

TEST(Sequence, CountsWhatChangesAsIfItBeganAnew) {
  SCOPED_TRACE(testing::Message() << "seed " << kSequenceSeed);
  RandomProblems random(kSequenceSeed);
  int overwriting = 0, undone = 0;
  for (int i = 0; i < 300; ++i) {
    Problem problem = random.next({.operations = 12});
    problem.order.clear();
    problem.ends.clear();
    for (const Operation& operation : problem.operations) overwriting += operation.overwrites.empty() ? 0 : 1;
    Changes changes(problem, random);
    for (int turn = 0; turn < 60; ++turn) {
      for (int k = random.draw(1, 3); k > 0; --k) changes.change();
      if (random.draw(0, 2) == 0) {
        undone += changes.has_changed() ? 1 : 0;
        changes.undo();
      } else {
        ASSERT_NO_FATAL_FAILURE(changes.expect_as_from_nothing()) << "problem " << i << ", turn " << turn;
        changes.commit();
      }
    }
    ASSERT_NO_FATAL_FAILURE(changes.expect_as_from_nothing()) << "problem " << i;
  }
  EXPECT_GT(overwriting, 300);
  EXPECT_GT(undone, 1000);
}

}  // namespace
}  // namespace sectionflow::planning

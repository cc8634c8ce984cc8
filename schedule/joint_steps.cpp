#include "schedule/joint_steps.h"

#include <algorithm>
#include <map>

#include "schedule/step_accesses.h"

namespace sectionflow {
namespace {

class Joining {
 public:
  Joining(const Schedule& schedule, const std::vector<std::unique_ptr<Kernel>>& kernels,
          const StorageAssignment& storage, const MemoryPlan& plan)
      : schedule_(schedule), kernels_(kernels), storage_(storage), plan_(plan), is_awaited_(awaited_steps(schedule)) {}

  std::vector<JointSteps> join() {
    for (StepIndex i = 0; i < static_cast<StepIndex>(schedule_.steps.size()); ++i) {
      if (i == schedule_.half) close_all();
      visit(i);
    }
    close_all();
    // By their places in the list, whatever kernels' addresses are.
    std::sort(closed_.begin(), closed_.end());
    return std::move(closed_);
  }

 private:
  /// Steps that may be put off up to now.
  struct Open {
    JointSteps steps;
    Touched touched;
  };

  void visit(StepIndex index) {
    const Touched touched = touched_by(schedule_, storage_, plan_, index);
    // All are put off as long as all may be: so there are as few launches as can be.
    for (auto& [kind, open] : open_) {
      if (open.touched.conflicts_with(touched)) close(open);
    }
    if (const void* kind = kind_of(index)) {
      Open& open = open_[kind];
      open.steps.push_back(index);
      open.touched.add(touched);
    }
    if (is_awaited_[static_cast<std::size_t>(index)]) close_all();
  }

  const void* kind_of(StepIndex index) const {
    if (step(index).kind != StepKind::compute || step(index).workspace.kind != Operand::Kind::none) return nullptr;
    return kernels_[static_cast<std::size_t>(step(index).slot)]->joint_kind();
  }

  const Step& step(StepIndex index) const { return schedule_.steps[static_cast<std::size_t>(index)]; }

  void close(Open& open) {
    if (open.steps.size() > 1) closed_.push_back(std::move(open.steps));
    open = {};
  }
  void close_all() {
    for (auto& [kind, open] : open_) close(open);
  }

  const Schedule& schedule_;
  const std::vector<std::unique_ptr<Kernel>>& kernels_;
  const StorageAssignment& storage_;
  const MemoryPlan& plan_;
  std::vector<bool> is_awaited_;
  std::map<const void*, Open> open_;  // by joint_kind
  std::vector<JointSteps> closed_;
};

}  // namespace

std::vector<JointSteps> join_steps(const Schedule& schedule, const std::vector<std::unique_ptr<Kernel>>& kernels,
                                   const StorageAssignment& storage, const MemoryPlan& plan) {
  return Joining(schedule, kernels, storage, plan).join();
}

}  // namespace sectionflow

#include "runtime/joint_steps.h"

#include <algorithm>
#include <map>

#include "runtime/step_accesses.h"

namespace sectionflow {
namespace {

/// What steps touch: bytes of the planned region of device memory, and variables. What copies touch off the device is
/// none of a kernel's.
class Touched {
 public:
  struct Variable {
    int node;
    bool writes;
  };
  std::vector<Access> bytes;
  std::vector<Variable> variables;

  bool conflicts_with(const Touched& other) const {
    const auto conflict_in = [](const auto& mine, const auto& others, const auto& overlap) {
      return std::any_of(mine.begin(), mine.end(), [&](const auto& a) {
        return std::any_of(others.begin(), others.end(),
                           [&](const auto& b) { return (a.writes || b.writes) && overlap(a, b); });
      });
    };
    return conflict_in(bytes, other.bytes,
                       [](const Access& a, const Access& b) { return a.begin < b.end && b.begin < a.end; }) ||
           conflict_in(variables, other.variables, [](Variable a, Variable b) { return a.node == b.node; });
  }
  void add(const Touched& other) {
    bytes.insert(bytes.end(), other.bytes.begin(), other.bytes.end());
    variables.insert(variables.end(), other.variables.begin(), other.variables.end());
  }
};

class Joining {
 public:
  Joining(const Schedule& schedule, const std::vector<std::unique_ptr<Kernel>>& kernels,
          const StorageAssignment& storage, const MemoryPlan& plan)
      : schedule_(schedule), kernels_(kernels), storage_(storage), plan_(plan), is_awaited_(schedule.steps.size()) {
    for (const Step& step : schedule.steps) {
      for (StepIndex earlier : step.waits) is_awaited_[static_cast<std::size_t>(earlier)] = true;
    }
  }

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
    const Touched touched = touched_by(index);
    // All are put off as long as all may be: so there are as few launches as can be.
    for (auto& [kind, open] : open_) {
      if (open.touched.conflicts_with(touched)) close(open);
    }
    if (const void* kind = kind_of(index)) {
      Open& open = open_[kind];
      open.steps.push_back(index);
      open.touched.add(touched);
    }
    if (is_awaited_[static_cast<std::size_t>(index)] && step(index).lane == Lane::compute) close_all();
  }

  const void* kind_of(StepIndex index) const {
    if (step(index).kind != StepKind::compute || step(index).workspace.kind != Operand::Kind::none) return nullptr;
    return kernels_[static_cast<std::size_t>(step(index).slot)]->joint_kind();
  }

  Touched touched_by(StepIndex index) const {
    Touched touched;
    if (step(index).kind == StepKind::hold) return touched;
    for_each_access(schedule_, storage_, plan_, index, [&](const Access& access) {
      if (access.tier == Tier::device && access.begin < access.end) touched.bytes.push_back(access);
    });
    const auto add_variables = [&](const std::vector<Operand>& operands, bool writes) {
      for (const Operand& operand : operands) {
        if (operand.kind == Operand::Kind::variable) touched.variables.push_back({operand.index, writes});
      }
    };
    add_variables(step(index).inputs, false);
    add_variables(step(index).outputs, true);
    add_variables(step(index).updated, true);
    return touched;
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

JointLaunches::JointLaunches(const Program& program) : group_of_step_(program.schedule.steps.size(), -1) {
  for (const JointSteps& steps : join_steps(program.schedule, program.kernels, program.storage, program.plan)) {
    Group group;
    group.last = steps.back();
    for (StepIndex index : steps) {
      const BoundStep& bound = program.bound[static_cast<std::size_t>(index)];
      group.kernels.push_back(bound.kernel);
      KernelArguments& arguments = group.arguments.emplace_back();
      arguments.inputs = bound.inputs;
      arguments.outputs = bound.outputs;
      arguments.updated = bound.updated;
      group_of_step_[static_cast<std::size_t>(index)] = static_cast<int>(groups_.size());
    }
    groups_.push_back(std::move(group));
  }
}

void JointLaunches::reach(StepIndex index, void* queue, const RandomState* random_state) {
  Group& group = groups_[static_cast<std::size_t>(group_of_step_[static_cast<std::size_t>(index)])];
  if (index != group.last) return;
  for (KernelArguments& arguments : group.arguments) {
    arguments.queue = queue;
    arguments.random_state = random_state;
  }
  group.kernels.front()->launch_joint(group.kernels, group.arguments);
}

}  // namespace sectionflow

#include "runtime/shared_launches.h"

namespace sectionflow {
namespace {

KernelArguments arguments_of(const BoundStep& bound) {
  KernelArguments arguments;
  arguments.inputs = bound.inputs;
  arguments.outputs = bound.outputs;
  return arguments;
}

}  // namespace

JointLaunches::JointLaunches(const Executable& program) : group_of_step_(program.schedule.steps.size(), -1) {
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

ChainLaunches::ChainLaunches(const Executable& program) : chain_of_step_(program.schedule.steps.size(), -1) {
  for (const ChainedSteps& steps : chain_steps(program.schedule, program.kernels, program.storage, program.plan)) {
    const BoundStep& first = program.bound[static_cast<std::size_t>(steps.first)];
    const BoundStep& second = program.bound[static_cast<std::size_t>(steps.second)];
    for (StepIndex index : {steps.first, steps.second}) {
      chain_of_step_[static_cast<std::size_t>(index)] = static_cast<int>(chains_.size());
    }
    chains_.push_back({steps, first.kernel, second.kernel, arguments_of(first), arguments_of(second)});
  }
}

void ChainLaunches::reach(StepIndex index, void* queue, const RandomState* random_state) {
  Chain& chain = chains_[static_cast<std::size_t>(chain_of_step_[static_cast<std::size_t>(index)])];
  if (index != chain.steps.second) return;
  for (KernelArguments* arguments : {&chain.first_arguments, &chain.second_arguments}) {
    arguments->queue = queue;
    arguments->random_state = random_state;
  }
  chain.first->launch_chain(chain.first_arguments,
                            {*chain.second, chain.second_arguments, chain.steps.operand, chain.steps.stores});
}

}  // namespace sectionflow

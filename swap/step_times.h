#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "schedule/concrete_graph.h"
#include "schedule/planning_tools.h"
#include "swap/profile.h"

namespace sectionflow {

/// What a kernel is known by from one process to the next: op, node, whether it is a replay, implementation, types.
std::string kernel_key(const ConcreteGraph& graph, const Step& step, const Kernel& kernel);

/// How long the steps of one program's drafts take by themselves. Copies count the throttle of the tools.
class StepTimes {
 public:
  /// Both must outlive this.
  StepTimes(const PlanningTools& tools, const Profile& profile) : tools_(tools), profile_(profile) {}
  StepTimes(const PlanningTools&, Profile&&) = delete;

  /// One a step of a draft of the tools.
  std::vector<double> of(const Schedule& schedule);
  /// Of a transfer of so many bytes.
  double transfer(StepKind kind, std::size_t bytes) const;

 private:
  double of_kernel(const Step& step);

  const PlanningTools& tools_;
  const Profile& profile_;
  std::vector<double> by_slot_;  // seconds of kernels that have been asked for; negative: not yet
};

/// Arithmetic and memory traffic of one execution of a node, from its types.
struct Work {
  double flops = 0;  ///< OpDef::flops; 0 for what merely streams
  double bytes = 0;  ///< read and written
};
Work work_of(const ConcreteGraph& graph, NodeId id);

}  // namespace sectionflow

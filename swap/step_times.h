#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "schedule/concrete_graph.h"
#include "schedule/planning_tools.h"
#include "swap/profile.h"

namespace sectionflow {

/// What a kernel is known by from one process to the next: op, node, whether it is a replay, implementation, types; of
/// a part in how many parts its node runs.
std::string kernel_key(const ConcreteGraph& graph, const Step& step, const Kernel& kernel);

/// How long the steps of one program, or of its drafts, take by themselves. Copies count the throttle of the link.
class StepTimes {
 public:
  using Kernels = std::vector<std::unique_ptr<Kernel>>;

  /// Of drafts of these tools. Both must outlive this.
  StepTimes(const PlanningTools& tools, const Profile& profile)
      : StepTimes(tools.graph(), tools.kernels(), tools.carrier(), tools.link_bandwidth(), profile) {}
  StepTimes(const PlanningTools&, Profile&&) = delete;
  /// Of a schedule with these kernels, by Step::slot. `link_bandwidth`: that copies are held to; 0: unlimited. All must
  /// outlive this.
  StepTimes(const ConcreteGraph& graph, const Kernels& kernels, CopyCarrier carrier, double link_bandwidth,
            const Profile& profile)
      : graph_(graph), kernels_(kernels), carrier_(carrier), link_bandwidth_(link_bandwidth), profile_(profile) {}

  /// One a step of the schedule.
  std::vector<double> of(const Schedule& schedule);
  /// Of a replay of a compute step by the same kernel.
  double again(const Step& step);
  /// Of a transfer of so many bytes.
  double transfer(StepKind kind, std::size_t bytes) const;
  /// By how many seconds each step of the schedule delays the executions beside it: those that threads copy.
  std::vector<double> drags_of(const Schedule& schedule) const;
  /// The same of a copy of so many bytes between device and host memory.
  double drag(std::size_t bytes) const {
    return carrier_ == CopyCarrier::threads ? profile_.copy_drag * static_cast<double>(bytes) : 0;
  }
  /// Bytes a second of copies in the slower direction, where threads carry them: the throttle of the link, or less.
  double link_rate() const;

 private:
  double of_kernel(const Step& step);
  double unmeasured(const Step& step, const Kernel& kernel) const;

  const ConcreteGraph& graph_;
  const Kernels& kernels_;
  CopyCarrier carrier_;
  double link_bandwidth_;
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

#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/export.h"
#include "device/device.h"
#include "device/memory_limit.h"
#include "schedule/liveness.h"
#include "schedule/prepare_kernels.h"
#include "schedule/schedule.h"

namespace SF_API sectionflow {

/// Where the variables lie between runs, by node: in the arena, or, where another tier is their home tier, in the pool
/// of host memory or in the swap file.
struct VariableLayout {
  std::vector<std::size_t> offsets;       ///< in the arena; kAbsent for other nodes
  std::vector<std::size_t> host_offsets;  ///< in the pool of host memory; kAbsent for other nodes
  std::vector<std::size_t> disk_offsets;  ///< in the swap file; kAbsent for other nodes
  std::size_t end_bytes = 0;              ///< end of the last variable in the arena
  std::size_t host_end_bytes = 0;         ///< end of the last variable in the pool
  std::size_t disk_end_bytes = 0;         ///< end of the last variable in the swap file
  static constexpr std::size_t kAbsent = static_cast<std::size_t>(-1);

  bool has_host_home(NodeId id) const { return place(host_offsets, id) != kAbsent; }
  bool has_disk_home(NodeId id) const { return place(disk_offsets, id) != kAbsent; }
  bool contains(NodeId id) const { return place(offsets, id) != kAbsent || has_host_home(id) || has_disk_home(id); }
  Tier home_of(NodeId id) const {
    return has_disk_home(id) ? Tier::disk : has_host_home(id) ? Tier::host : Tier::device;
  }
  /// Whether any must be copied in to be used.
  bool has_homes_off_device() const { return host_end_bytes > 0 || disk_end_bytes > 0; }

 private:
  static std::size_t place(const std::vector<std::size_t>& places, NodeId id) {
    return static_cast<std::size_t>(id) < places.size() ? places[static_cast<std::size_t>(id)] : kAbsent;
  }
};

/// An instruction list lowered and planned as the final one is going to be.
struct Draft {
  Schedule schedule;
  StorageAssignment storage;
  MemoryPlan plan;
  std::size_t device_peak_bytes = 0;  ///< variables included
  std::size_t host_peak_bytes = 0;    ///< variables included
  std::size_t disk_peak_bytes = 0;    ///< variables included
  bool fits = false;                  ///< in the budgets of all tiers
};

/// The peak of a tier whose planned region lies behind its variables.
std::size_t peak_behind(std::size_t variables_end, const TierPeak& planned, Tier tier);

struct IdleStretch;

/// Where a value spends an idle stretch: wherever the planner finds best, or on the device, or in host memory, or on
/// disk.
enum class Placement { automatic, keep, host, disk };

/// What is wanted of the values of one instruction list while they lie idle.
struct OffloadPolicies {
  std::function<Placement(const IdleStretch&)> placement{};  ///< absent: automatic for all
  /// The first instruction before which the value may come back to the device; absent: the planner's choice. Where it
  /// is asked, instructions before the stretch count as its first, and instructions behind it as its last.
  std::function<int(const IdleStretch&)> earliest_return{};
};

/// What the options of a writer's user say of its list, to whoever decides what the budgets demand.
struct ListPolicies {
  /// Whether a node may be executed again; absent: whatever gives the same bits.
  std::function<bool(const Node&)> may_repeat{};
  /// Of a list that executes the same, in the same order, and more or less of it again; absent: nothing is said.
  std::function<OffloadPolicies(const InstructionList&)> offloads{};
};

/// What is told of a list by those who have decided on it.
struct ListRemarks {
  /// What the writer wants the program's report to say.
  std::vector<std::string> notes{};
  double predicted_seconds = 0;  ///< of one execution; 0: nobody predicts
  std::string advice{};          ///< what to do if the program does not fit
  std::string first_advice{};    ///< the same, before all else, whichever tier is too small
  /// What device memory has to be for the writer to find an instruction list that fits, where this one does not; 0:
  /// what it takes.
  std::size_t least_device_bytes = 0;
  bool minimum_is_exact = true;    ///< whether no smaller device memory would do, and that much does
  bool minimum_is_enough = false;  ///< where it is not exact: whether that much does
  bool forces_offloads = false;    ///< whether tensors are offloaded whatever the budgets are
};

/// What a writer of instruction lists may ask while it decides: what a list would need. Made for one program; the
/// kernels that its drafts need are made once. It takes the writer's remarks.
class PlanningTools : public ListRemarks {
 public:
  /// `guard_bytes`: behind every storage in device memory. All must outlive it.
  PlanningTools(const ConcreteGraph& graph, std::size_t num_fetches, const VariableLayout& variables, Device& device,
                const TierBudgets& budgets, CopyCarrier carrier, double link_bandwidth, std::size_t guard_bytes)
      : graph_(graph),
        num_fetches_(num_fetches),
        variables_(variables),
        device_(device),
        budgets_(budgets),
        carrier_(carrier),
        link_bandwidth_(link_bandwidth),
        guard_bytes_(guard_bytes),
        kernels_(graph, device) {}

  /// Lowers, prepares, plans. Waits are not set. `edit` may change the schedule before it is planned.
  /// Throws: as lower_instructions, and ArgumentError for a missing kernel.
  Draft draft(const InstructionList& list, const std::function<void(Schedule&)>& edit = {});

  /// Lowered, with its kernels, and not planned. Throws: as draft.
  Schedule prepared(const InstructionList& list);

  const ConcreteGraph& graph() const { return graph_; }
  const VariableLayout& variables() const { return variables_; }
  Device& device() const { return device_; }
  const TierBudgets& budgets() const { return budgets_; }
  /// What drafts are held against from here on.
  void set_budgets(const TierBudgets& budgets) { budgets_ = budgets; }
  CopyCarrier carrier() const { return carrier_; }
  /// Bytes a second and direction that copies are held to; 0: unlimited.
  double link_bandwidth() const { return link_bandwidth_; }
  /// Behind every storage in device memory.
  std::size_t guard_bytes() const { return guard_bytes_; }
  /// By Step::slot of any draft.
  const std::vector<std::unique_ptr<Kernel>>& kernels() const { return kernels_.kernels(); }
  std::vector<std::unique_ptr<Kernel>> take_kernels() { return kernels_.take(); }

  ListPolicies policies{};  ///< of the list, where the writer has been told any
  /// Asked of the writer: a list that is predicted to take no less is of no use, and need not be looked for.
  double only_below = std::numeric_limits<double>::infinity();
  /// Asked of the writer: what its progress has before what it counts.
  std::string told_first{};
  /// Asked of the writer: what it would decide by budgets is decided behind it, from the list that it writes without,
  /// and so is what `policies` offload in any case.
  bool is_fitted_later = false;

 private:
  Schedule lowered(const InstructionList& list) const;

  const ConcreteGraph& graph_;
  std::size_t num_fetches_;
  const VariableLayout& variables_;
  Device& device_;
  TierBudgets budgets_;
  CopyCarrier carrier_;
  double link_bandwidth_;
  std::size_t guard_bytes_;
  KernelCache kernels_;
};

}  // namespace sectionflow

#pragma once

#include <map>
#include <vector>

#include "schedule/idle_stretches.h"
#include "schedule/planning_tools.h"
#include "sections/cycle_view.h"
#include "sections/section_options.h"
#include "sections/section_schedule.h"
#include "swap/profile.h"

namespace sectionflow {

/// Where the tensors of a cycle are kept: what the user said, section by section.
struct CyclePolicies {
  std::vector<SectionOptions> sections{};   ///< in order
  SectionOptions outside{};                 ///< of what stands outside of all sections
  std::map<Value, BorderPolicy> tensors{};  ///< named ones
  const Profile* profile = nullptr;         ///< how fast the machine is; nullptr: the nominal one

  const SectionOptions& of(SectionIndex section) const {
    return section == kOutside ? outside : sections[static_cast<std::size_t>(section)];
  }
};

/// Whether no tensor of the cycle may leave the device.
bool keeps_everything(const CyclePolicies& policies);

/// Says for each idle stretch of one instruction list of a cycle where the tensor is kept.
class OffloadRules {
 public:
  /// `view`: of that list. `written`: of the list that was written for the cycle, which says what border tensors are.
  /// All must outlive it.
  OffloadRules(const CycleView& view, const CycleView& written, const CyclePolicies& policies)
      : view_(view), written_(written), policies_(policies) {}

  Placement placement(const IdleStretch& stretch) const;
  /// The first instruction before which the tensor may come back for its reader.
  int earliest_return(const IdleStretch& stretch) const { return earliest_return(stretch.begin, stretch.end); }
  int earliest_return(int begin, int reader) const;
  /// Whether the tensor waits from the forward pass for a backward run.
  bool crosses(const IdleStretch& stretch) const;

 private:
  const BorderPolicy* named(Value tensor) const;

  const CycleView& view_;
  const CycleView& written_;
  const CyclePolicies& policies_;
};

/// Writes the instruction list of a full cycle whose tensors are kept as the policies say.
InstructionList write_cycle(PlanningTools& tools, const CycleRequest& request, const CyclePolicies& policies);

/// Writes the backward half alone, for a cycle whose forward half has left `entries`, in whatever tier: what is
/// offloaded is copied back for its first reader.
InstructionList write_second_half(PlanningTools& tools, const CycleRequest& request,
                                  const std::vector<EntryValue>& entries, const CyclePolicies& policies);

}  // namespace sectionflow

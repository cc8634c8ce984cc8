#pragma once

#include <map>
#include <set>
#include <vector>

#include "base/export.h"
#include "schedule/planning_tools.h"
#include "sections/cycle_view.h"
#include "sections/section_options.h"
#include "sections/section_schedule.h"
#include "swap/swap_request.h"

namespace SF_API sectionflow {

/// How the tensors of a cycle rest: what the user said, section by section.
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

/// Says for each idle stretch of one script of a cycle where the tensor rests.
class RestRules {
 public:
  /// `travelling`: tensors, by any name, that rest in host memory between forward pass and backward run though no
  /// policy of the user forces them to. All must outlive it.
  RestRules(const CycleView& view, const CyclePolicies& policies, const std::set<Value>& travelling)
      : view_(view), policies_(policies), travelling_(travelling) {}

  Placement placement(const IdleStretch& stretch) const;
  /// The first line before which the tensor may come back for its reader.
  int earliest_return(const IdleStretch& stretch) const { return earliest_return(stretch.begin, stretch.end); }
  int earliest_return(int begin, int reader) const;
  /// Whether the tensor waits from the forward pass for a backward run.
  bool crosses(const IdleStretch& stretch) const;

 private:
  const BorderPolicy* named(Value tensor) const;

  const CycleView& view_;
  const CyclePolicies& policies_;
  const std::set<Value>& travelling_;
};

/// The script with rests as the policies say; `only_forced`: without those that the budgets alone ask for.
Script with_rests(const Script& script, PlanningTools& tools, const CycleRequest& request,
                  const CyclePolicies& policies, const std::set<Value>& travelling = {}, bool only_forced = false);

/// Writes the script of a full cycle whose tensors rest as the policies say.
Script write_cycle(PlanningTools& tools, const CycleRequest& request, const CyclePolicies& policies);

/// Writes the backward half alone, for a cycle whose forward half has left `entries`, in whatever tier: what rests
/// elsewhere is brought back for its first reader.
Script write_rest_of_cycle(PlanningTools& tools, const CycleRequest& request, const std::vector<EntryValue>& entries,
                           const CyclePolicies& policies);

}  // namespace sectionflow

#include "sections/section_policies.h"

#include <algorithm>
#include <utility>

#include "schedule/insert_offloads.h"
#include "sections/interior_search.h"
#include "swap/insert_swaps.h"

namespace sectionflow {
namespace {

bool moves_nothing(const SectionOptions& options) {
  const bool still = options.interior == InteriorPolicy::recompute || options.interior == InteriorPolicy::keep;
  return still && options.borders == BorderPolicy::keep;
}

Placement placement_of(BorderPolicy policy) {
  switch (policy) {
    case BorderPolicy::automatic:
      return Placement::automatic;
    case BorderPolicy::keep:
      return Placement::keep;
    case BorderPolicy::host:
      return Placement::host;
    case BorderPolicy::disk:
      return Placement::disk;
  }
  throw InternalError("placement_of: unknown policy");
}

/// Mean and variance of a normalisation, and their like: too small to be worth a transfer.
bool is_statistic(Value value) {
  const auto& kept = value.node().op().kept_outputs;
  return std::find(kept.begin(), kept.end(), value.output()) != kept.end();
}

/// What helps when the cycle does not fit, as far as it is a matter of the policies.
std::string advice_for(const CyclePolicies& policies) {
  bool still_borders = false, still_interior = false;
  for (const SectionOptions& options : policies.sections) {
    still_borders = still_borders || options.borders == BorderPolicy::keep;
    still_interior =
        still_interior || options.interior == InteriorPolicy::keep || options.interior == InteriorPolicy::swap;
  }
  for (const auto& named : policies.tensors) still_borders = still_borders || named.second == BorderPolicy::keep;
  std::string advice;
  if (still_borders)
    advice += "offload border tensors to host memory (SectionOptions{.borders = BorderPolicy::automatic}), or ";
  if (still_interior) advice += "drop interiors (SectionOptions{.interior = InteriorPolicy::automatic}), or ";
  return advice + "cut the graph into more sections near this step";
}

/// Whether tensors are offloaded whatever the budgets are.
bool forces_offloads(const CyclePolicies& policies) {
  const auto leaves = [](BorderPolicy policy) { return policy == BorderPolicy::host || policy == BorderPolicy::disk; };
  const auto forces = [&](const SectionOptions& options) {
    return leaves(options.borders) || options.interior == InteriorPolicy::swap;
  };
  return std::any_of(policies.sections.begin(), policies.sections.end(), forces) || forces(policies.outside) ||
         std::any_of(policies.tensors.begin(), policies.tensors.end(),
                     [&](const auto& named) { return leaves(named.second); });
}

/// The instruction list with the instructions that copy offloaded entries back to the device: with `prefetch` as early
/// as the policies say, or else just before the first instruction that reads them or gives them another name.
InstructionList with_returns(const InstructionList& list, const CycleView& view, const OffloadRules& rules,
                             bool prefetch) {
  std::set<Value> there;
  for (const EntryValue& entry : list.entries) {
    if (entry.tier == Tier::device) there.insert(entry.value);
  }
  std::vector<Insertion> insertions;
  for (const EntryValue& entry : list.entries) {
    const int use = view.first_use(view.tensor_of(entry.value));
    if (entry.tier == Tier::device || use < 0 || there.contains(entry.value)) continue;
    const int place = prefetch ? rules.earliest_return(0, use) : use;
    const auto add = [&](StepKind kind) {
      insertions.push_back(
          {.place = place, .instruction = {.kind = kind, .fetched = entry.value, .offload = entry.offload}});
    };
    if (entry.tier == Tier::disk) add(StepKind::disk_read);
    add(StepKind::copy_in);
  }
  return with_insertions(list, std::move(insertions));
}

}  // namespace

bool keeps_everything(const CyclePolicies& policies) {
  return moves_nothing(policies.outside) &&
         std::all_of(policies.sections.begin(), policies.sections.end(), moves_nothing) &&
         std::all_of(policies.tensors.begin(), policies.tensors.end(),
                     [](const auto& named) { return named.second == BorderPolicy::keep; });
}

const BorderPolicy* OffloadRules::named(Value tensor) const {
  for (const Value& name : view_.names_of(tensor)) {
    if (const auto found = policies_.tensors.find(name); found != policies_.tensors.end()) return &found->second;
  }
  return nullptr;
}

bool OffloadRules::crosses(const IdleStretch& stretch) const {
  return stretch.begin > 0 && view_.run_at(stretch.begin - 1).is_forward && !view_.run_at(stretch.end).is_forward;
}

Placement OffloadRules::placement(const IdleStretch& stretch) const {
  const Value tensor = view_.tensor_of(stretch.value);
  const BorderPolicy* own_policy = named(tensor);
  if (own_policy != nullptr && *own_policy == BorderPolicy::keep) return Placement::keep;
  if (crosses(stretch) && !tensor.node().op().is_brought_in()) {
    if (own_policy != nullptr) return placement_of(*own_policy);
    const auto names = view_.names_of(tensor);
    if (std::any_of(names.begin(), names.end(), [&](const Value& v) { return offloaded_.contains(v); })) {
      return Placement::host;
    }
    const SectionOptions& maker = policies_.of(view_.section_of(tensor));
    if (view_.is_border(tensor)) return placement_of(maker.borders);
    if (maker.interior == InteriorPolicy::keep) return Placement::keep;
    if (maker.interior == InteriorPolicy::swap && !is_statistic(tensor)) return Placement::host;
  }
  return moves_nothing(policies_.of(view_.run_at(stretch.end).section)) ? Placement::keep : Placement::automatic;
}

int OffloadRules::earliest_return(int begin, int reader) const {
  const int run = view_.run_of(reader);
  const int ahead = policies_.of(view_.runs()[static_cast<std::size_t>(run)].section).prefetch;
  if (ahead == 0) return reader;
  return std::max(begin, view_.runs()[static_cast<std::size_t>(std::max(0, run - ahead))].first_instruction);
}

InstructionList with_offloads(const InstructionList& list, PlanningTools& tools, const CycleRequest& request,
                              const CyclePolicies& policies, const std::set<Value>& offloaded, bool only_forced) {
  tools.least_device_bytes = 0;
  if (keeps_everything(policies)) return list;
  const CycleView view(list, tools.graph(), request.groups);
  const OffloadRules rules(view, policies, offloaded);
  SwapRequest swaps{.profile = policies.profile};
  swaps.placement = [&](const IdleStretch& stretch) {
    const Placement placement = rules.placement(stretch);
    return only_forced && placement == Placement::automatic ? Placement::keep : placement;
  };
  swaps.earliest_return = [&](const IdleStretch& stretch) { return rules.earliest_return(stretch); };
  return insert_swaps(list, tools, swaps);
}

InstructionList write_cycle(PlanningTools& tools, const CycleRequest& request, const CyclePolicies& policies) {
  tools.advice = advice_for(policies);
  tools.forces_offloads = forces_offloads(policies);
  CycleRequest asked = request;
  bool searches = false;
  for (SectionIndex k = 0; k < static_cast<SectionIndex>(policies.sections.size()); ++k) {
    const InteriorPolicy interior = policies.of(k).interior;
    if (interior == InteriorPolicy::keep || interior == InteriorPolicy::swap) asked.keeps_interior.insert(k);
    searches = searches || interior == InteriorPolicy::automatic;
  }
  for (const auto& named : policies.tensors) {
    if (named.second != BorderPolicy::automatic) asked.kept_interior.insert(named.first);
  }
  if (tools.is_fitted_later) {
    InstructionList list = write_section_schedule(tools.graph(), asked).list;
    return tools.forces_offloads ? with_offloads(list, tools, asked, policies, {}, true) : list;
  }
  if (searches) return search_interior(tools, asked, policies);
  return with_offloads(write_section_schedule(tools.graph(), asked).list, tools, asked, policies);
}

InstructionList write_second_half(PlanningTools& tools, const CycleRequest& request,
                                  const std::vector<EntryValue>& entries, const CyclePolicies& policies) {
  tools.advice = advice_for(policies);
  tools.forces_offloads = forces_offloads(policies);
  // With another budget the forward half would have left other entries.
  tools.minimum_is_exact = false;
  const InstructionList plain = write_backward_half(tools.graph(), request, entries);
  const CycleView view(plain, tools.graph(), request.groups);
  const std::set<Value> nothing;
  const OffloadRules rules(view, policies, nothing);
  InstructionList list = with_returns(plain, view, rules, true);
  if (!tools.draft(list).fits) list = with_returns(plain, view, rules, false);
  return with_offloads(list, tools, request, policies);
}

}  // namespace sectionflow

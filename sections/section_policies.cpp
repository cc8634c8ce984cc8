#include "sections/section_policies.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "fit/fit_list.h"
#include "schedule/insert_offloads.h"

namespace sectionflow {
namespace {

/// Of the search for what automatic interiors compute again: plans of walks alone, for whoever trains in sections for
/// want of time to plan.
constexpr int kInteriorRungs = 48;
constexpr std::int64_t kInteriorEffort = 1;

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

/// Whether the user has said anything of where tensors are kept.
bool says_something(const CyclePolicies& policies) {
  const auto says = [](const SectionOptions& options) {
    const SectionOptions nothing;
    return options.borders != nothing.borders || options.interior != nothing.interior ||
           options.prefetch != nothing.prefetch || !options.tensors.empty();
  };
  return says(policies.outside) || std::any_of(policies.sections.begin(), policies.sections.end(), says) ||
         !policies.tensors.empty();
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
    const SectionOptions& maker = policies_.of(view_.section_of(tensor));
    if (written_.is_border(tensor)) return placement_of(maker.borders);
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

namespace {

/// What the policies of a cycle say of one list of it.
struct ListView {
  ListView(const InstructionList& list, const ConcreteGraph& graph, const std::vector<GroupId>& groups,
           std::shared_ptr<const CyclePolicies> policies, std::shared_ptr<const CycleView> written)
      : policies(std::move(policies)),
        written(std::move(written)),
        view(list, graph, groups),
        rules(view, *this->written, *this->policies) {}
  std::shared_ptr<const CyclePolicies> policies;
  std::shared_ptr<const CycleView> written;
  CycleView view;
  OffloadRules rules;
};

/// Which forward tensors may be computed again.
class Droppable {
 public:
  /// Of interiors what no policy keeps, and border tensors that are not `kept` where all of that is computed again:
  /// their own section alone reads them in the backward pass.
  Droppable(const CycleView& written, const CyclePolicies& policies, const std::set<Value>& kept)
      : written_(written), policies_(policies), kept_(kept) {}

  bool contains(Value tensor) const {
    const std::vector<Value> names = written_.names_of(tensor);
    const SectionOptions& maker = policies_.of(written_.section_of(tensor));
    return maker.interior == InteriorPolicy::automatic && !is_named(names) &&
           (!written_.is_border(tensor) ||
            std::none_of(names.begin(), names.end(), [&](const Value& name) { return kept_.contains(name); }));
  }
  /// Where all is decided anew behind the list, whatever its sections compute again by themselves: then also the
  /// interiors that these compute again, and all border tensors that may go.
  bool contains_anew(Value tensor) const {
    const SectionOptions& maker = policies_.of(written_.section_of(tensor));
    const bool is_free = written_.is_border(tensor) ? maker.borders == BorderPolicy::automatic
                                                    : maker.interior == InteriorPolicy::automatic ||
                                                          maker.interior == InteriorPolicy::recompute;
    return is_free && !is_named(written_.names_of(tensor));
  }

 private:
  bool is_named(const std::vector<Value>& names) const {
    return std::any_of(names.begin(), names.end(), [&](const Value& name) {
      const auto named = policies_.tensors.find(name);
      return named != policies_.tensors.end() && named->second != BorderPolicy::automatic;
    });
  }

  const CycleView& written_;
  const CyclePolicies& policies_;
  const std::set<Value>& kept_;
};

/// What the policies say of the list that is written for a cycle, and of others that execute the same. `kept`: what is
/// kept where all of the automatic interiors is computed again; nullptr where all is decided anew behind the list.
ListPolicies list_policies(const InstructionList& list, const ConcreteGraph& graph, const std::vector<GroupId>& groups,
                           const CyclePolicies& cycle, const std::set<Value>* kept) {
  const auto policies = std::make_shared<const CyclePolicies>(cycle);
  const auto written = std::make_shared<const CycleView>(list, graph, groups);
  const std::set<Value> nothing;
  const Droppable droppable(*written, *policies, kept != nullptr ? *kept : nothing);
  std::map<NodeId, bool> may_repeat;  // of forward nodes
  for (const Instruction& instruction : list.instructions) {
    const Pass& pass = list.passes[static_cast<std::size_t>(instruction.pass)];
    if (instruction.kind != StepKind::compute || pass.kind != Pass::Kind::forward) continue;
    Node& node = graph.graph().node(instruction.node);
    bool& may = may_repeat.try_emplace(instruction.node, true).first->second;
    for (int output = 0; output < static_cast<int>(node.output_types().size()); ++output) {
      const Value tensor = written->tensor_of(node.output(output));
      // Replays keep statistics in any case.
      if (!is_statistic(tensor))
        may = may && (kept != nullptr ? droppable.contains(tensor) : droppable.contains_anew(tensor));
    }
  }
  ListPolicies said;
  said.may_repeat = [may_repeat = std::move(may_repeat), otherwise = kept == nullptr](const Node& node) {
    const auto known = may_repeat.find(node.id());
    return known == may_repeat.end() ? otherwise : known->second;
  };
  said.offloads = [=, &graph](const InstructionList& of) {
    const auto view = std::make_shared<const ListView>(of, graph, groups, policies, written);
    return OffloadPolicies{[view](const IdleStretch& stretch) { return view->rules.placement(stretch); },
                           [view](const IdleStretch& stretch) { return view->rules.earliest_return(stretch); }};
  };
  return said;
}

/// Of the list alone, with nothing computed again.
InstructionList offloaded(const InstructionList& list, PlanningTools& tools, const CycleRequest& request,
                          const CyclePolicies& policies) {
  tools.least_device_bytes = 0;
  if (keeps_everything(policies)) return list;
  return fit_list(list, tools,
                  {.profile = policies.profile,
                   .may_recompute = false,
                   .policies = list_policies(list, tools.graph(), request.groups, policies, nullptr),
                   .tells_exact_least = true,
                   .name = "sections"})
      .list;
}

}  // namespace

InstructionList write_cycle(PlanningTools& tools, const CycleRequest& request, const CyclePolicies& policies) {
  tools.advice = advice_for(policies);
  tools.forces_offloads = forces_offloads(policies);
  CycleRequest asked = request;
  std::set<SectionIndex> automatic;
  for (SectionIndex k = 0; k < static_cast<SectionIndex>(policies.sections.size()); ++k) {
    const InteriorPolicy interior = policies.of(k).interior;
    if (interior == InteriorPolicy::keep || interior == InteriorPolicy::swap) asked.keeps_interior.insert(k);
    if (interior == InteriorPolicy::automatic) automatic.insert(k);
  }
  for (const auto& named : policies.tensors) {
    if (named.second != BorderPolicy::automatic) asked.kept_interior.insert(named.first);
  }
  const CycleInstructions least = write_section_schedule(tools.graph(), asked);
  if (tools.is_fitted_later) {
    if (says_something(policies))
      tools.policies = list_policies(least.list, tools.graph(), request.groups, policies, nullptr);
    return least.list;
  }
  if (automatic.empty()) return offloaded(least.list, tools, request, policies);
  asked.keeps_interior.merge(automatic);
  const InstructionList most = write_section_schedule(tools.graph(), asked).list;
  return fit_list(most, tools,
                  {.profile = policies.profile,
                   .effort = kInteriorEffort,
                   .num_rungs = kInteriorRungs,
                   .policies = list_policies(most, tools.graph(), request.groups, policies, &least.kept),
                   .least = &least.list,
                   .tells_exact_least = true,
                   .name = "sections"})
      .list;
}

InstructionList write_second_half(PlanningTools& tools, const CycleRequest& request,
                                  const std::vector<EntryValue>& entries, const CyclePolicies& policies) {
  tools.advice = advice_for(policies);
  tools.forces_offloads = forces_offloads(policies);
  // With another budget the forward half would have left other entries.
  tools.minimum_is_exact = false;
  const InstructionList plain = write_backward_half(tools.graph(), request, entries);
  const CycleView view(plain, tools.graph(), request.groups);
  const OffloadRules rules(view, view, policies);
  InstructionList list = with_returns(plain, view, rules, true);
  if (!tools.draft(list).fits) list = with_returns(plain, view, rules, false);
  return offloaded(list, tools, request, policies);
}

}  // namespace sectionflow

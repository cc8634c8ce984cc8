#include "schedule/planning_tools.h"

#include "base/bytes.h"
#include "graph/nodes/update.h"
#include "schedule/variable_gathers.h"
#include "schedule/variable_transfers.h"

namespace sectionflow {

std::size_t peak_behind(std::size_t variables_end, const TierPeak& planned, Tier tier) {
  return planned.peak_bytes == 0 ? variables_end : round_up(variables_end, alignment_of(tier)) + planned.peak_bytes;
}

Schedule PlanningTools::lowered(const InstructionList& list) const {
  const bool has_ranks = ranks_of(graph_.graph()) > 1;
  const InstructionList gathered = has_ranks ? insert_gathers(list, graph_) : InstructionList();
  const InstructionList& whole = has_ranks ? gathered : list;
  if (!variables_.has_homes_off_device()) return lower_instructions(whole, graph_, num_fetches_, carrier_);
  const auto home_of = [this](NodeId id) { return variables_.home_of(id); };
  return lower_instructions(insert_variable_transfers(whole, graph_, home_of, carrier_), graph_, num_fetches_,
                            carrier_);
}

Schedule PlanningTools::prepared(const InstructionList& list) {
  Schedule schedule = lowered(list);
  kernels_.prepare(schedule);
  return schedule;
}

Draft PlanningTools::draft(const InstructionList& list, const std::function<void(Schedule&)>& edit) {
  Draft draft;
  draft.schedule = lowered(list);
  if (edit) edit(draft.schedule);
  kernels_.prepare(draft.schedule);
  draft.storage = assign_storages(draft.schedule, kernels_.kernels(), guard_bytes_);
  draft.plan = plan_memory(draft.storage.storages);
  draft.device_peak_bytes = peak_behind(variables_.end_bytes, draft.plan, Tier::device);
  draft.host_peak_bytes = peak_behind(variables_.host_end_bytes, draft.plan.host, Tier::host);
  draft.disk_peak_bytes = peak_behind(variables_.disk_end_bytes, draft.plan.disk, Tier::disk);
  draft.fits = draft.device_peak_bytes <= budgets_.device && draft.host_peak_bytes <= budgets_.host &&
               draft.disk_peak_bytes <= budgets_.disk;
  return draft;
}

}  // namespace sectionflow

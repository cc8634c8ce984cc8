#include "schedule/planning_tools.h"

#include "base/bytes.h"
#include "schedule/variable_transfers.h"

namespace sectionflow {

std::size_t peak_behind(std::size_t variables_end, const TierPeak& planned, Tier tier) {
  return planned.peak_bytes == 0 ? variables_end : round_up(variables_end, alignment_of(tier)) + planned.peak_bytes;
}

Draft PlanningTools::draft(const Script& script, const std::function<void(Schedule&)>& edit) {
  Draft draft;
  const auto at_home = [this](NodeId id) { return variables_.is_at_home(id); };
  const bool has_homes = variables_.home_end_bytes > 0;
  draft.schedule = has_homes ? lower_script(insert_variable_transfers(script, graph_, at_home, carrier_), graph_,
                                            num_fetches_, carrier_)
                             : lower_script(script, graph_, num_fetches_, carrier_);
  if (edit) edit(draft.schedule);
  kernels_.prepare(draft.schedule);
  draft.storage = assign_storages(draft.schedule, kernels_.kernels(), guard_bytes_);
  draft.plan = plan_memory(draft.storage.storages);
  draft.device_peak_bytes = peak_behind(variables_.end_bytes, draft.plan, Tier::device);
  draft.host_peak_bytes = peak_behind(variables_.home_end_bytes, draft.plan.host, Tier::host);
  draft.fits = draft.device_peak_bytes <= budgets_.device && draft.host_peak_bytes <= budgets_.host &&
               draft.plan.disk.peak_bytes <= budgets_.disk;
  return draft;
}

}  // namespace sectionflow

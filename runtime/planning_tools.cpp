#include "runtime/planning_tools.h"

#include "base/bytes.h"

namespace sectionflow {

Draft PlanningTools::draft(const Script& script, const std::function<void(Schedule&)>& edit) {
  Draft draft;
  draft.schedule = lower_script(script, graph_, num_fetches_, carrier_);
  if (edit) edit(draft.schedule);
  kernels_.prepare(draft.schedule);
  draft.storage = assign_storages(draft.schedule, kernels_.kernels(), guard_bytes_);
  draft.plan = plan_memory(draft.storage.storages);
  draft.device_peak_bytes =
      draft.plan.peak_bytes == 0 ? variables_.end_bytes : round_up(variables_.end_bytes) + draft.plan.peak_bytes;
  draft.fits = draft.device_peak_bytes <= budgets_.device && draft.plan.host.peak_bytes <= budgets_.host &&
               draft.plan.disk.peak_bytes <= budgets_.disk;
  return draft;
}

}  // namespace sectionflow

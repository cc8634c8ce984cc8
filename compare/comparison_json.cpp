#include <nlohmann/json.hpp>

#include "compare/compare_strategies.h"

namespace sectionflow {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const TierUse& use) {
  return {{"planned_bytes", use.planned_bytes}, {"measured_bytes", use.measured_bytes}};
}

Json json_of(const StrategyResult& r) {
  Json json = {{"name", r.name},
               {"fits", r.fits},
               {"step_ms", {{"median", r.step_ms.median}, {"p25", r.step_ms.p25}, {"p75", r.step_ms.p75}}},
               {"ratio", r.ratio},
               {"planned_peak_bytes", r.planned_peak_bytes},
               {"measured_peak_bytes", r.measured_peak_bytes},
               {"host", json_of(r.host)},
               {"disk", json_of(r.disk)},
               {"persistent_bytes", r.persistent_bytes},
               {"lower_bound_bytes", r.lower_bound_bytes},
               {"border_bytes", r.border_bytes},
               {"section_bytes", r.section_bytes},
               {"transient_share", r.transient_share},
               {"recomputed_ops", r.recomputed_ops},
               {"bytes_out", r.bytes_out},
               {"bytes_in", r.bytes_in},
               {"disk_bytes_out", r.disk_bytes_out},
               {"disk_bytes_in", r.disk_bytes_in},
               {"predicted_seconds", r.predicted_seconds},
               {"copy_seconds", r.swaps.copy_seconds},
               {"stall_seconds", r.swaps.stall_seconds},
               {"hidden_share", r.swaps.hidden_share},
               {"traced_cycle_seconds", r.swaps.cycle_seconds},
               {"identical", r.identical}};
  if (!r.misfit.empty()) json["misfit"] = r.misfit;
  if (!r.difference.empty()) json["difference"] = r.difference;
  return json;
}

Json json_of(const LargestSizes& sizes) {
  Json rows = Json::array();
  for (const LargestSize& found : sizes.strategies) {
    rows.push_back({{"name", found.name},
                    {"size", found.size},
                    {"ratio", found.ratio},
                    {"planned_peak_bytes", found.planned_peak_bytes},
                    {"measured_peak_bytes", found.measured_peak_bytes},
                    {"trained", found.proved},
                    {"step_ms", found.step_ms},
                    {"next_misfit", found.next_misfit}});
  }
  return {{"what", sizes.what}, {"strategies", rows}};
}

}  // namespace

std::string Comparison::json() const {
  Json rows = Json::array(), found = Json::array();
  for (const StrategyResult& result : strategies) rows.push_back(json_of(result));
  for (const LargestSizes& sizes : largest) found.push_back(json_of(sizes));
  Json json = {{"model", model},
               {"batch", batch},
               {"steps", steps},
               {"device", device},
               {"threads", threads},
               {"device_memory_bytes", budgets.device},
               {"host_memory_bytes", budgets.host},
               {"disk_bytes", budgets.disk},
               {"link_bytes_per_second", link_bandwidth},
               {"swap_variables", swap_variables},
               {"copy_threads", copy_threads}};
  if (context_bytes > 0) json["context_bytes"] = context_bytes;
  if (reference) json["reference"] = json_of(*reference);
  json["strategies"] = rows;
  if (!largest.empty()) json["largest"] = found;
  if (frontier) json["frontier"] = Json::parse(frontier->json());
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace sectionflow

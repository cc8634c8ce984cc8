#include <cmath>
#include <nlohmann/json.hpp>

#include "fit/explain.h"

namespace sectionflow {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has no infinity: null.
Json finite(double number) {
  return std::isfinite(number) ? Json(number) : Json(nullptr);
}

Json json_of(const BudgetPoint& point) {
  return {{"budget_bytes", point.budget_bytes},
          {"fits", point.fits},
          {"seconds", point.seconds},
          {"bound_seconds", finite(point.bound_seconds)},
          {"peak_bytes", point.peak_bytes},
          {"host_peak_bytes", point.host_peak_bytes},
          {"disk_peak_bytes", point.disk_peak_bytes},
          {"recomputed_operations", point.recomputed_operations},
          {"bytes_out", point.bytes_out}};
}

Json json_of(const BudgetFrontier& frontier) {
  Json points = Json::array();
  for (const BudgetPoint& point : frontier.points) points.push_back(json_of(point));
  return {{"whole_seconds", frontier.whole_seconds},     {"whole_peak_bytes", frontier.whole_peak_bytes},
          {"variables_bytes", frontier.variables_bytes}, {"working_set_bytes", frontier.working_set_bytes},
          {"working_set_of", frontier.working_set_of},   {"points", points}};
}

Json json_of(const ExplainedPeak& peak) {
  Json parts = Json::array();
  for (const PeakPart& part : peak.parts) {
    parts.push_back({{"name", part.name}, {"type", part.type}, {"bytes", part.bytes}, {"why", part.why}});
  }
  return {{"step", peak.step},
          {"at", peak.at},
          {"peak_bytes", peak.peak_bytes},
          {"variables_bytes", peak.variables_bytes},
          {"parts", parts},
          {"unused_bytes", peak.unused_bytes}};
}

Json json_of(const ExplainedTensor& tensor) {
  Json stays = Json::array();
  for (const ExplainedTensor::Stay& stay : tensor.stays) {
    stays.push_back({{"tier", stay.tier},
                     {"first_step", stay.first_step},
                     {"last_step", stay.last_step},
                     {"begin_seconds", stay.begin_seconds},
                     {"end_seconds", stay.end_seconds}});
  }
  return {{"name", tensor.name},
          {"type", tensor.type},
          {"section", tensor.section},
          {"bytes", tensor.bytes},
          {"fate", fate_name(tensor.fate)},
          {"times_again", tensor.times_again},
          {"times_to_host", tensor.times_to_host},
          {"times_to_disk", tensor.times_to_disk},
          {"seconds", tensor.seconds},
          {"spared_seconds", tensor.spared_seconds},
          {"byte_seconds_saved", tensor.byte_seconds_saved},
          {"is_live_at_peak", tensor.is_live_at_peak},
          {"saved_at_peak", tensor.saved_at_peak},
          {"reason", tensor.reason},
          {"stays", stays}};
}

std::string text_of_json(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string BudgetFrontier::json() const {
  return text_of_json(json_of(*this));
}

std::string Explanation::json() const {
  Json rows = Json::array();
  for (const ExplainedTensor& tensor : tensors) rows.push_back(json_of(tensor));
  Json json = {{"budget_bytes", budget_bytes},   {"seconds", seconds},
               {"again_seconds", again_seconds}, {"copy_seconds", copy_seconds},
               {"stall_seconds", stall_seconds}, {"is_nominal", is_nominal},
               {"peak", json_of(peak)},          {"tensors", rows}};
  if (price) {
    json["price"] = {{"step_bytes", price->step_bytes},
                     {"here", json_of(price->here)},
                     {"more", json_of(price->more)},
                     {"less", json_of(price->less)},
                     {"text", price->text()}};
  }
  if (frontier) json["frontier"] = json_of(*frontier);
  if (!no_price.empty()) json["no_price"] = no_price;
  return text_of_json(json);
}

}  // namespace sectionflow

#include "tools/plan_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/text_table.h"

namespace sectionflow {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kOfTrain =
    "; --metrics tells that of train, which tells the accuracy too where a model has logits";

std::string sections_text(const std::vector<SectionMemory>& sections) {
  TextTable table({"section", "its own values", "peak while it runs"});
  for (const SectionMemory& section : sections) {
    table.add_row(
        {section.name, bytes_text(section.held_bytes), section.peak_bytes == 0 ? "" : bytes_text(section.peak_bytes)});
  }
  return table.text();
}

Json json_of(const ProgramReport& report) {
  Json json = {{"budget_bytes", report.budget_bytes},
               {"planned_peak_bytes", report.planned_peak_bytes},
               {"persistent_bytes", report.persistent_bytes},
               {"transient_bytes", report.transient_bytes},
               {"lower_bound_bytes", report.lower_bound_bytes},
               {"border_bytes", report.border_bytes},
               {"section_bytes", report.section_bytes},
               {"host_peak_bytes", report.host_peak_bytes},
               {"disk_peak_bytes", report.disk_peak_bytes},
               {"host_persistent_bytes", report.host_persistent_bytes},
               {"disk_persistent_bytes", report.disk_persistent_bytes},
               {"bytes_out", report.bytes_out},
               {"bytes_in", report.bytes_in},
               {"disk_bytes_out", report.disk_bytes_out},
               {"disk_bytes_in", report.disk_bytes_in},
               {"operations", report.num_operations},
               {"recomputed_operations", report.recomputed_operations},
               {"predicted_seconds", report.predicted_seconds},
               {"fullest_step", report.fullest_step},
               {"notes", report.notes}};
  Json live = Json::array();
  for (const LiveTensor& tensor : report.largest_live) {
    live.push_back({{"name", tensor.name}, {"type", tensor.type}, {"bytes", tensor.bytes}});
  }
  json["largest_live"] = live;
  return json;
}

}  // namespace

std::vector<SectionMemory> section_memory(const MemoryTimeline& timeline) {
  std::vector<SectionMemory> sections;
  // The first layer holds the variables, which are there whatever runs.
  for (std::size_t layer = 1; layer < timeline.layers.size(); ++layer) {
    SectionMemory section{.name = timeline.layers[layer].name};
    for (const MemoryTimeline::Sample& sample : timeline.samples) {
      section.held_bytes = std::max(section.held_bytes, sample.device[layer]);
    }
    for (const MemoryTimeline::Bar& bar : timeline.bars) {
      const bool is_its_run = bar.kind == StepKind::compute && bar.pass.kind != Pass::Kind::whole &&
                              bar.pass.section == timeline.layers[layer].section;
      if (!is_its_run) continue;
      for (const MemoryTimeline::Sample& sample : timeline.samples) {
        if (bar.start <= sample.at && sample.at < bar.end) {
          section.peak_bytes = std::max(section.peak_bytes, sample.device_bytes());
        }
      }
    }
    sections.push_back(section);
  }
  return sections;
}

std::string PlannedStep::text() const {
  std::string text =
      model + ", batch " + std::to_string(batch) + ", " + strategy + (device.empty() ? "" : ", " + device);
  if (link_bandwidth > 0) text += ", link " + bytes_text(static_cast<std::size_t>(link_bandwidth)) + "/s each way";
  if (copy_threads) text += ", copies by threads of their own";
  if (swap_variables) text += ", variables in host memory";
  if (metrics) text += ", with the accuracy";
  text += "\n";
  if (report) text += report->text();
  if (!sections.empty()) text += sections_text(sections);
  if (smallest_budget) {
    const char* const at_least = smallest_is_exact || smallest_is_enough ? "" : "at least ";
    const char* const found = smallest_is_exact || !smallest_is_enough ? "" : " that was found";
    text += text_of("smallest budget of device memory", found, ": ", at_least, bytes_text(*smallest_budget), " (",
                    *smallest_budget, " bytes)", lacks_metrics ? kOfTrain : "", "\n");
  }
  if (explanation) text += "\n" + explanation->text() + "\n";
  if (frontier) text += "fit_budget in other budgets:\n" + frontier->text() + "\n";
  if (fits) return text + (is_limited ? "fits the budget\n" : "fits this machine\n");
  return text + "does not fit:\n" + misfit + (misfit.ends_with('\n') ? "" : "\n");
}

std::string PlannedStep::json() const {
  Json json = {{"model", model},
               {"batch", batch},
               {"strategy", strategy},
               {"device", device},
               {"link_bytes_per_second", link_bandwidth},
               {"copy_threads", copy_threads},
               {"swap_variables", swap_variables},
               {"metrics", metrics},
               {"fits", fits}};
  if (!misfit.empty()) json["misfit"] = misfit;
  if (smallest_budget) {
    json["smallest_budget_bytes"] = *smallest_budget;
    json["smallest_budget_is_exact"] = smallest_is_exact;
    json["smallest_budget_is_enough"] = smallest_is_exact || smallest_is_enough;
  }
  if (report) json["plan"] = json_of(*report);
  Json rows = Json::array();
  for (const SectionMemory& section : sections) {
    rows.push_back({{"name", section.name}, {"held_bytes", section.held_bytes}, {"peak_bytes", section.peak_bytes}});
  }
  json["sections"] = rows;
  if (explanation) json["explanation"] = Json::parse(explanation->json());
  if (frontier) json["frontier"] = Json::parse(frontier->json());
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace sectionflow

#include "base/bytes.h"
#include "base/error.h"
#include "fit/plan_content.h"
#include "fit/plan_file.h"
#include "tools/inspection.h"

namespace sectionflow {
namespace {

/// What a program of the plan is, and what it takes of each tier.
std::string text_of_program(const ProgramPlan& program) {
  std::string text = text_of(program.facts.name(), " of ", program.facts.feeds_text(), ": ",
                             counted(program.instructions.size(), "instruction"), ", ", bytes_text(program.device_peak),
                             " of device memory");
  if (program.host_peak > 0) text += ", " + bytes_text(program.host_peak) + " of host memory";
  if (program.disk_peak > 0) text += ", " + bytes_text(program.disk_peak) + " on disk";
  return text + "\n";
}

Json json_of_program(const ProgramPlan& program) {
  return {{"fetches", program.facts.fetches},
          {"updates", program.facts.updates},
          {"feeds", program.facts.feeds},
          {"instructions", program.instructions.size()},
          {"device_peak_bytes", program.device_peak},
          {"host_peak_bytes", program.host_peak},
          {"disk_peak_bytes", program.disk_peak}};
}

}  // namespace

Inspection inspect_plan(const std::filesystem::path& path) {
  const FitPlan plan = load_plan(path.string());
  Inspection inspection;
  if (plan.empty()) return inspection;
  const PlanContent& content = *plan.content();
  inspection.text = text_of("planned on ", content.device, ", ", bytes_text(content.budgets.device),
                            " of device memory, by a ", content.profile == "nominal" ? "nominal" : "measured",
                            " profile\na model with ", content.model.text(), "\n");
  inspection.json = {{"device", content.device},
                     {"device_memory", content.budgets.device},
                     {"profile", content.profile},
                     {"variables", content.model.variables},
                     {"variable_bytes", content.model.bytes}};
  inspection.json["programs"] = Json::array();
  for (const ProgramPlan& program : content.programs) {
    inspection.text += text_of_program(program);
    inspection.json["programs"].push_back(json_of_program(program));
  }
  return inspection;
}

}  // namespace sectionflow

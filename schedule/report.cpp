#include "schedule/report.h"

#include "base/bytes.h"
#include "base/error.h"
#include "base/text_table.h"
#include "schedule/budget_advice.h"

namespace sectionflow {
namespace {

std::string exact(std::size_t bytes) {
  return bytes_text(bytes) + " (" + std::to_string(bytes) + " bytes)";
}

std::string fullest_text(const ProgramReport& report, std::size_t most) {
  std::string text = "  fullest at: " + report.fullest_step + "\n";
  text += "  largest of " + std::to_string(report.num_live) + " tensors alive there:\n";
  for (std::size_t i = 0; i < report.largest_live.size() && i < most; ++i) {
    const LiveTensor& tensor = report.largest_live[i];
    text += "    " + bytes_text(tensor.bytes) + "  " + tensor.type + "  " + tensor.name + "\n";
  }
  return text;
}

/// Behind what a tier takes: that it is more than the option of SessionOptions gives.
std::string excess_text(const char* option, std::size_t needed, std::size_t given) {
  return needed <= given ? std::string() : text_of("; ", option, " of ", exact(given), " is too small");
}

}  // namespace

std::string ProgramReport::text() const {
  std::string text = "  peak:       " + exact(planned_peak_bytes) + " = " + bytes_text(persistent_bytes) +
                     " persistent + " + bytes_text(transient_bytes) + " transient\n";
  if (border_bytes > 0) {
    text += "  transient:  at most " + bytes_text(border_bytes) + " kept between sections, and " +
            bytes_text(section_bytes) + " for the fullest section itself\n";
  }
  text += "  budget:     " + exact(budget_bytes) + (planned_peak_bytes > budget_bytes ? ", too small\n" : "\n");
  if (feeds_ahead_bytes > 0)
    text += "  feeds:      " + exact(feeds_ahead_bytes) + " behind the peak for the next step's\n";
  if (context_bytes > 0) text += "  context:    " + exact(context_bytes) + " beside the budget\n";
  if (bytes_out > 0 || host_peak_bytes > host_budget_bytes) {
    text += "  swapped:    " + bytes_text(bytes_out) + " out and " + bytes_text(bytes_in) + " in; host peak " +
            exact(host_peak_bytes) + excess_text("host_memory", host_peak_bytes, host_budget_bytes) + "\n";
  }
  if (disk_bytes_out + disk_bytes_in > 0 || disk_peak_bytes > disk_budget_bytes) {
    text += "  disk:       " + bytes_text(disk_bytes_out) + " out and " + bytes_text(disk_bytes_in) + " in; peak " +
            exact(disk_peak_bytes) + excess_text("disk", disk_peak_bytes, disk_budget_bytes) + "\n";
  }
  if (disk_persistent_bytes > 0) {
    text += "  variables:  " + bytes_text(host_persistent_bytes) + " in host memory, " +
            bytes_text(disk_persistent_bytes) + " on disk\n";
  }
  if (bytes_communicated > 0) text += "  in common:  " + bytes_text(bytes_communicated) + " of all ranks\n";
  text += "  recomputed: " + std::to_string(recomputed_operations) + " of " + std::to_string(num_operations) +
          " operations\n";
  if (predicted_seconds > 0)
    text += "  predicted:  " + decimal_text(1e3 * predicted_seconds, predicted_seconds < 0.01 ? 3 : 1) +
            " ms, by the profile that it was planned by\n";
  text += fullest_text(*this, 4);
  for (const std::string& note : notes) text += "  note: " + note + "\n";
  return text;
}

namespace {

const char* whose(const ProgramReport& report) {
  return report.initializes ? "session.initialize()" : "the program";
}
const char* may_need_more(const ProgramReport& report) {
  return report.initializes ? ", and what is run then may need more" : "";
}

/// What another tier that is too small lacks, behind the first.
std::string also_needed(std::size_t needed, std::size_t given, const char* tier, const char* option) {
  if (needed <= given) return "";
  return text_of("; and ", exact(needed), " of ", tier, ", ", option, " is ", exact(given));
}
std::string also_of_disk(const ProgramReport& report) {
  return also_needed(report.disk_peak_bytes, report.disk_budget_bytes, "disk", "disk");
}
std::string also_of_host(const ProgramReport& report) {
  return also_needed(report.host_peak_bytes, report.host_budget_bytes, "host memory", "host_memory");
}

/// One tier off the device is too small for what lies in it.
[[noreturn]] void throw_tier_error(const ProgramReport& report, const char* option, const char* tier,
                                   std::size_t needed, std::size_t given, const std::string& also,
                                   const std::string& advice) {
  throw BudgetError(
      error_text_of(whose(report), " needs ", exact(needed), " of ", tier, ", ", option, " is ", exact(given), also,
                    "\n  minimum: ", option, " of ", needed, " bytes", may_need_more(report), hint(advice)),
      given, needed);
}

}  // namespace

void throw_budget_error(const ProgramReport& report) {
  const char* const at_least = report.minimum_is_enough ? "" : "at least ";
  const bool less_may_do = report.minimum_is_enough && !report.minimum_is_exact;
  if (report.planned_peak_bytes <= report.budget_bytes) {
    if (report.host_peak_bytes > report.host_budget_bytes) {
      throw_tier_error(report, "host_memory", "host memory", report.host_peak_bytes, report.host_budget_bytes,
                       also_of_disk(report), host_advice(report));
    }
    throw_tier_error(report, "disk", "disk", report.disk_peak_bytes, report.disk_budget_bytes, "", disk_advice(report));
  }
  throw BudgetError(
      error_text_of(whose(report), " needs ", at_least, exact(report.planned_peak_bytes),
                    less_may_do ? " as it was planned" : "", ", device_memory is ", exact(report.budget_bytes),
                    also_of_host(report), also_of_disk(report), "\n  of these:   ", bytes_text(report.persistent_bytes),
                    " persistent (variables), ", bytes_text(report.transient_bytes), " transient\n",
                    fullest_text(report, 8), "  minimum: device_memory of ", at_least, report.planned_peak_bytes,
                    " bytes", less_may_do ? ", which does; less may, by another plan" : "", may_need_more(report),
                    hint(device_advice(report))),
      report.budget_bytes, report.planned_peak_bytes);
}

}  // namespace sectionflow

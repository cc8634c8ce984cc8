#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/text_table.h"
#include "fit/explain.h"
#include "swap/swap_notes.h"

namespace sectionflow {
namespace {

constexpr std::size_t kMostParts = 12;

std::string tensors_text(std::size_t count) {
  return text_of(count, count == 1 ? " tensor" : " tensors");
}

std::string share_text(double share) {
  return decimal_text(100 * share, 1) + " %";
}

/// What becomes of how many tensors of how many bytes.
std::string sums_text(const Explanation& explanation) {
  struct Sum {
    std::size_t count = 0, bytes = 0, at_peak = 0, saved = 0;
    double seconds = 0;
  };
  std::map<Fate, Sum> sums;
  for (const ExplainedTensor& tensor : explanation.tensors) {
    Sum& sum = sums[tensor.fate];
    ++sum.count;
    sum.bytes += tensor.bytes;
    sum.at_peak += tensor.is_live_at_peak ? tensor.bytes : 0;
    sum.saved += tensor.saved_at_peak;
    sum.seconds += tensor.seconds;
  }
  TextTable table({"what becomes of it", "tensors", "bytes", "at the peak", "not there at the peak", "takes"});
  for (const auto& [fate, sum] : sums) {
    table.add_row({fate_name(fate), text_of(sum.count), bytes_text(sum.bytes),
                   sum.at_peak > 0 ? bytes_text(sum.at_peak) : "", sum.saved > 0 ? bytes_text(sum.saved) : "",
                   sum.seconds > 0 ? milliseconds(sum.seconds) : ""});
  }
  return table.text();
}

std::string time_text(const Explanation& explanation) {
  std::string text = text_of("predicted", explanation.is_nominal ? ", of a nominal machine" : "", ": ",
                             milliseconds(explanation.seconds), " a step");
  if (explanation.again_seconds > 0)
    text += text_of(", ", milliseconds(explanation.again_seconds), " of it for what is written anew");
  if (explanation.copy_seconds > 0) {
    text += text_of(", ", milliseconds(explanation.stall_seconds), " of it for swapping, whose copies take ",
                    milliseconds(explanation.copy_seconds));
  }
  return text + "\n";
}

std::string peak_text(const ExplainedPeak& peak) {
  std::string text = text_of("the peak, ", bytes_text(peak.peak_bytes), ", is at ", peak.at, "\n");
  TextTable table({"there", "bytes", "type"});
  table.add_row({"variables", bytes_text(peak.variables_bytes), ""});
  std::size_t others = 0;
  for (std::size_t i = 0; i < peak.parts.size(); ++i) {
    const PeakPart& part = peak.parts[i];
    if (i < kMostParts) {
      table.add_row({part.name, bytes_text(part.bytes), part.type}, {part.why});
    } else {
      others += part.bytes;
    }
  }
  if (others > 0)
    table.add_row({text_of("and ", tensors_text(peak.parts.size() - kMostParts)), bytes_text(others), ""});
  table.add_row({"alignment and gaps", bytes_text(peak.unused_bytes), ""});
  return text + table.text();
}

/// "0.123": milliseconds that a MiB of it takes, or spares.
std::string a_mib(const ExplainedTensor& tensor) {
  const double seconds = tensor.fate == Fate::kept ? tensor.spared_seconds : tensor.seconds;
  if (tensor.bytes == 0 || seconds == 0) return "";
  return decimal_text(1e3 * seconds / (static_cast<double>(tensor.bytes) / static_cast<double>(1_MiB)), 3);
}

/// Of the tensors of which something is to be told those that decide the peak, or would without what becomes of them,
/// the largest first; then the others; and how many are left out.
std::string tensors_text(const Explanation& explanation, std::size_t most) {
  std::vector<const ExplainedTensor*> told;
  for (const ExplainedTensor& tensor : explanation.tensors) {
    if (tensor.fate != Fate::scratch && tensor.fate != Fate::passing) told.push_back(&tensor);
  }
  if (told.empty()) return "";
  const auto rank = [](const ExplainedTensor* tensor) {
    return std::pair(tensor->is_live_at_peak || tensor->saved_at_peak > 0, tensor->bytes);
  };
  std::ranges::stable_sort(told, std::greater<>(), rank);
  TextTable table({"tensor", "type", "section", "bytes", "what becomes of it", "takes", "spares", "ms a MiB"});
  for (std::size_t i = 0; i < std::min(most, told.size()); ++i) {
    const ExplainedTensor& tensor = *told[i];
    const int times = tensor.times_to_host > 0 ? tensor.times_to_host : tensor.times_again;
    table.add_row({tensor.name, tensor.type, tensor.section, bytes_text(tensor.bytes),
                   fate_name(tensor.fate) + (times > 1 ? text_of(", ", times, " times") : ""),
                   tensor.seconds > 0 ? milliseconds(tensor.seconds) : "",
                   tensor.spared_seconds > 0 ? milliseconds(tensor.spared_seconds) : "", a_mib(tensor)},
                  {tensor.reason});
  }
  std::string text = table.text();
  if (told.size() > most) text += text_of("and ", tensors_text(told.size() - most), " more that wait\n");
  return text;
}

/// That the planner would take another time in the same memory.
std::string planner_text(const Explanation& explanation) {
  const BudgetPoint& here = explanation.price->here;
  constexpr double kAlike = 0.001;
  if (!here.fits || std::abs(here.seconds - explanation.seconds) < kAlike * explanation.seconds) return "";
  return text_of("fit_budget would take ", milliseconds(here.seconds), " in ", bytes_text(here.budget_bytes), "\n");
}

}  // namespace

std::string MemoryPrice::text() const {
  if (!here.fits) return text_of("nothing fits ", bytes_text(here.budget_bytes));
  const auto change = [&](const BudgetPoint& point) { return point.seconds / here.seconds - 1; };
  const std::string step = bytes_text(step_bytes);
  std::string text = "at " + bytes_text(here.budget_bytes) + ": " + step + " more would save " +
                     share_text(std::max(0.0, -change(more)));
  if (step_bytes < here.budget_bytes) {
    text += ", " + step + " less would ";
    text += less.fits ? "cost " + share_text(std::max(0.0, change(less))) : "be too little";
  }
  const double mib = static_cast<double>(step_bytes) / static_cast<double>(1_MiB);
  text += "; a MiB is worth " + milliseconds(std::max(0.0, here.seconds - more.seconds) / mib);
  if (less.fits) text += " to " + milliseconds(std::max(0.0, less.seconds - here.seconds) / mib);
  return text + "; no plan in the same memory saves more than " +
         share_text(std::max(0.0, 1 - here.bound_seconds / here.seconds));
}

std::string Explanation::text(std::size_t most_tensors) const {
  std::string text = time_text(*this) + sums_text(*this) + "\n" + peak_text(peak);
  const std::string tensors = tensors_text(*this, most_tensors);
  if (!tensors.empty()) text += "\n" + tensors;
  if (price) text += "\n" + planner_text(*this) + price->text() + "\n";
  if (frontier) text += "\n" + frontier->text();
  if (!no_price.empty()) text += "\nno price of memory: " + no_price + "\n";
  return text;
}

}  // namespace sectionflow

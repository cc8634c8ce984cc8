#include "compare/comparison_table.h"

#include "base/bytes.h"
#include "base/error.h"

namespace sectionflow {
namespace {

/// Nothing for no bytes, so that columns of what nobody uses are left out.
std::string some_bytes(std::size_t bytes) {
  return bytes == 0 ? "" : bytes_text(bytes);
}

/// One number where planned and measured are the same bytes, as they should be.
std::string peak_text(const TierUse& use, bool measured) {
  const std::string planned = some_bytes(use.planned_bytes);
  if (!measured || use.measured_bytes == use.planned_bytes) return planned;
  return text_of(planned, ", measured ", bytes_text(use.measured_bytes));
}

std::vector<std::string> cells_of(const StrategyResult& r, const std::string& name) {
  const bool copies = r.fits && r.swaps.copy_seconds > 0;
  const auto if_fits = [&](const std::string& text) { return r.fits ? text : std::string(); };
  return {name,
          r.fits ? "yes" : "no",
          some_bytes(r.planned_peak_bytes),
          if_fits(bytes_text(r.measured_peak_bytes)),
          peak_text(r.host, r.fits),
          peak_text(r.disk, r.fits),
          if_fits(decimal_text(r.step_ms.median, 1)),
          if_fits(decimal_text(r.ratio, 3)),
          if_fits(std::to_string(r.recomputed_ops)),
          some_bytes(r.bytes_out),
          some_bytes(r.bytes_in),
          some_bytes(r.disk_bytes_out),
          copies ? text_of(decimal_text(100 * r.swaps.hidden_share, 0), " %") : "",
          copies ? decimal_text(1e3 * r.swaps.stall_seconds, 1) : "",
          if_fits(bytes_text(r.border_bytes)),
          if_fits(bytes_text(r.section_bytes)),
          if_fits(decimal_text(r.transient_share, 3)),
          if_fits(r.identical ? "yes" : "no")};
}

void add_result(const StrategyResult& result, const std::string& name, TextTable& table) {
  std::vector<std::string> remarks;
  if (!result.fits) remarks.push_back(text_of("does not fit: ", result.misfit));
  if (result.fits && !result.identical) remarks.push_back(result.difference);
  table.add_row(cells_of(result, name), std::move(remarks));
}

}  // namespace

TextTable comparison_table(const Comparison& comparison) {
  TextTable table({"strategy", "fits", "planned peak", "measured peak", "host peak", "disk peak", "step ms", "ratio",
                   "recomputed", "copied out", "copied in", "to disk", "hidden", "stall ms", "borders", "section",
                   "share", "identical"});
  if (comparison.reference) {
    add_result(*comparison.reference, text_of(comparison.reference->name, ", unlimited"), table);
  }
  for (const StrategyResult& result : comparison.strategies) add_result(result, result.name, table);
  return table;
}

std::string Comparison::setting() const {
  return text_of("model ", model, ", batch ", batch, ", ", steps, " steps, ", device);
}

std::string Comparison::limits() const {
  return text_of("device memory ", bytes_text(budgets.device), device_limited ? "" : " (all)",
                 context_bytes > 0 ? text_of(" and ", bytes_text(context_bytes), " for context and libraries") : "",
                 ", host memory ", bytes_text(budgets.host), ", ",
                 budgets.disk > 0 ? text_of("disk ", bytes_text(budgets.disk)) : std::string("no disk"), ", link ",
                 link_bandwidth > 0 ? text_of(bytes_text(static_cast<std::size_t>(link_bandwidth)), "/s each way")
                                    : std::string("as fast as it goes"),
                 ", copies by ", copy_threads ? "threads of their own" : "the compute team",
                 swap_variables ? ", variables in host memory" : "");
}

TextTable largest_table(const LargestSizes& sizes) {
  TextTable table(
      {"strategy", text_of("largest ", sizes.what), "ratio", "planned peak", "measured peak", "step ms", "trained"});
  for (const LargestSize& found : sizes.strategies) {
    const bool any = found.size > 0, is_measured = found.measured_peak_bytes > 0;
    std::vector<std::string> remarks;
    if (!found.next_misfit.empty() && !any) remarks.push_back(text_of("does not fit: ", found.next_misfit));
    table.add_row(
        {found.name, std::to_string(found.size), found.ratio > 0 ? decimal_text(found.ratio, 2) : "",
         any ? bytes_text(found.planned_peak_bytes) : "", is_measured ? bytes_text(found.measured_peak_bytes) : "",
         is_measured ? decimal_text(found.step_ms, 1) : "", found.proved ? "yes" : "no"},
        std::move(remarks));
  }
  return table;
}

std::string LargestSizes::text() const {
  return largest_table(*this).text();
}

std::string Comparison::text() const {
  std::string text = comparison_table(*this).text();
  for (const LargestSizes& sizes : largest) text.append(1, '\n').append(sizes.text());
  if (frontier) text += "\nthe whole graph under fit_budget, predicted\n" + frontier->text();
  return text;
}

}  // namespace sectionflow

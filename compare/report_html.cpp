#include "compare/report_html.h"

#include <algorithm>
#include <map>

#include "base/bytes.h"
#include "base/error.h"
#include "base/svg.h"
#include "base/whole_file.h"
#include "compare/comparison_table.h"
#include "compare/report_style.h"
#include "compare/timeline_picture.h"

namespace sectionflow {
namespace {

std::string element(const std::string& tag, const std::string& text) {
  return text_of("<", tag, ">", xml_escaped(text), "</", tag, ">\n");
}

/// Everything that gets a picture: all strategies, and the reference where none of them is the same by name.
std::vector<const StrategyResult*> shown(const Comparison& comparison) {
  std::vector<const StrategyResult*> results;
  for (const StrategyResult& result : comparison.strategies) results.push_back(&result);
  const bool again =
      comparison.reference && std::any_of(results.begin(), results.end(), [&](const StrategyResult* result) {
        return result->name == comparison.reference->name;
      });
  if (comparison.reference && !again) results.insert(results.begin(), &*comparison.reference);
  return results;
}

PictureScale scale_of(const Comparison& comparison, const std::vector<const StrategyResult*>& results) {
  PictureScale scale;
  for (const StrategyResult* result : results) {
    const MemoryTimeline& timeline = result->timeline;
    scale.device_bytes = std::max(scale.device_bytes, timeline.device_peak_bytes);
    for (const MemoryTimeline::Sample& sample : timeline.samples) {
      scale.offloaded_bytes = std::max(scale.offloaded_bytes, sample.host + sample.disk);
    }
  }
  if (comparison.device_limited) {
    scale.device_budget = comparison.budgets.device;
    // A budget just above everything still fits the picture; one far above would leave nothing to see.
    const double highest = 1.25 * static_cast<double>(scale.device_bytes);
    if (static_cast<double>(scale.device_budget) <= highest) {
      scale.device_bytes = std::max(scale.device_bytes, scale.device_budget);
    }
  }
  return scale;
}

/// What a strategy cost, in a line.
std::string verdict(const StrategyResult& result) {
  if (!result.fits) return {};
  std::string text = text_of(decimal_text(result.step_ms.median, 1), " ms a step, ", decimal_text(result.ratio, 2),
                             " of the reference; device peak ", bytes_text(result.measured_peak_bytes));
  if (result.recomputed_ops > 0) {
    text += text_of("; ", result.recomputed_ops, result.recomputed_ops == 1 ? " operation" : " operations",
                    " computed again");
  }
  if (result.bytes_out + result.bytes_in > 0) {
    text += text_of("; ", bytes_text(result.bytes_out), " copied out and ", bytes_text(result.bytes_in), " in");
  }
  if (result.disk_bytes_out > 0) text += text_of(", ", bytes_text(result.disk_bytes_out), " on to the disk");
  if (result.swaps.copy_seconds > 0) {
    text += text_of("; ", decimal_text(100 * result.swaps.hidden_share, 0), "% of the copies' time hidden, ",
                    decimal_text(1e3 * result.swaps.stall_seconds, 1), " ms of stall");
  }
  return text + ".";
}

std::string figure(const StrategyResult& result, const PictureScale& scale) {
  std::string html = "<figure>\n" + element("h3", result.name);
  if (!result.fits) {
    html += "<p class=\"quiet misfit\">" + xml_escaped(text_of("does not fit: ", result.misfit)) + "</p>\n";
    if (result.timeline.layers.empty()) return html + "</figure>\n";
    html += "<p class=\"quiet\">Its plan, step by step:</p>\n";
  } else {
    html += "<p class=\"quiet\">" + xml_escaped(verdict(result)) + "</p>\n";
    if (!result.identical) html += "<p class=\"quiet misfit\">" + xml_escaped(result.difference) + "</p>\n";
  }
  const std::string label = text_of("Memory in the course of one training step of ", result.name, ": at most ",
                                    bytes_text(result.timeline.device_peak_bytes), " of device memory");
  return html + timeline_picture(result.timeline, scale, label) + "</figure>\n";
}

std::string swatch(const std::string& look, const std::string& name) {
  Svg svg(22, 14, name);
  svg.rectangle({0, 1}, 22, 12, look);
  return "<li>" + svg.finish() + xml_escaped(name) + "</li>\n";
}

std::string legend(const std::vector<const StrategyResult*>& results, const PictureScale& scale) {
  std::map<GroupId, std::string> sections;
  for (const StrategyResult* result : results) {
    const auto& layers = result->timeline.layers;
    for (std::size_t i = 1; i < layers.size(); ++i) sections.emplace(layers[i].section, layers[i].name);
  }
  std::string html = "<ul class=\"legend\">\n" + swatch(text_of("fill:", kVariablesColour), "variables");
  for (const auto& [section, name] : sections) html += swatch("fill:" + section_colour(section), name);
  if (scale.device_budget > 0) {
    Svg line(22, 14, "budget");
    line.line({0, 7}, {22, 7}, text_of("stroke:", kBudgetColour, ";stroke-width:2;stroke-dasharray:6 3"));
    html += "<li>" + line.finish() + "budget of device memory</li>\n";
  }
  if (scale.offloaded_bytes > 0) {
    html += swatch(text_of("fill:", kHostColour), "in host memory") + swatch(text_of("fill:", kDiskColour), "on disk");
  }
  return html + "</ul>\n";
}

/// Where the strategies that were measured stand beside what fit_budget plans for any budget.
std::string frontier_figure(const Comparison& comparison, const std::vector<const StrategyResult*>& results) {
  std::vector<PlanMark> marks;
  for (const StrategyResult* result : results) {
    const bool is_reference = comparison.reference && result == &*comparison.reference;
    if (result->fits && !is_reference) marks.push_back({result->name, result->measured_peak_bytes, result->ratio - 1});
  }
  return element("h2", "Time against device memory") +
         element("p",
                 "What fit_budget plans for the whole graph in any memory, by predicted times, and what no plan is "
                 "below; beside it what the strategies took.") +
         "<div class=\"pictures\">\n<figure>\n" + comparison.frontier->picture(marks) + "</figure>\n</div>\n" +
         "<div class=\"scroll\">\n<pre>" + xml_escaped(comparison.frontier->text()) + "</pre></div>\n";
}

constexpr const char* kReading = R"html(<h2>How to read it</h2>
<dl>
<dt>pictures</dt><dd>One training step from left to right, the same scale of bytes in all pictures. Device memory is
stacked: variables below, above them what is alive of each section: its activations, gradients and scratch. What does
not fit is drawn from its plan, where every step is as wide as any other; gaps that the placement leaves are not
drawn.</dd>
<dt>compute</dt><dd>When the compute lane worked, in the colours of the sections: full in a forward pass, framed where a
section is computed again, paler in a backward pass. White is waiting, or copying by the compute team itself.</dd>
<dt>copies</dt><dd>When bytes were carried between device and host, and host and disk. Arcs join the largest copies out
with their copies in.</dd>
<dt>peak</dt><dd>The smallest budget that would do: planned before the first step, measured in it by canaries in all
memory that could be written. Of host memory and disk one number is shown where both are the same.</dd>
<dt>ratio</dt><dd>Time of a step to that of the reference, step by step in turn: the median.</dd>
<dt>recomputed</dt><dd>Operations that a step executes once more.</dd>
<dt>hidden, stall</dt><dd>From one traced step. Stall is the time in which the compute lane did not compute because of
copies; hidden is the share of the copies' time that cost none.</dd>
<dt>borders, section, share</dt><dd>The most that is kept between runs of sections, the most that one run needs for
itself, and the transient peak as a share of both together.</dd>
<dt>identical</dt><dd>Whether every byte of parameters, optimiser state, statistics and losses is that of the
reference.</dd>
</dl>
)html";

}  // namespace

std::string report_html(const Comparison& comparison) {
  const std::vector<const StrategyResult*> results = shown(comparison);
  const PictureScale scale = scale_of(comparison, results);
  const std::string title = "Ways to train " + comparison.model;
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n" +
      element("title", title) + "<style>" + kReportStyle + "</style>\n</head>\n<body>\n" + element("h1", title);
  html +=
      "<p class=\"quiet\">" + xml_escaped(comparison.setting()) + "<br>" + xml_escaped(comparison.limits()) + "</p>\n";
  html += "<div class=\"scroll\">\n" + comparison_table(comparison).html() + "</div>\n";
  for (const LargestSizes& sizes : comparison.largest) {
    html += element("h2", text_of("Largest ", sizes.what, " within the budgets")) + "<div class=\"scroll\">\n" +
            largest_table(sizes).html() + "</div>\n";
  }
  html += element("h2", "Memory in the course of a step") + legend(results, scale) + "<div class=\"pictures\">\n";
  for (const StrategyResult* result : results) html += figure(*result, scale);
  html += "</div>\n";
  if (comparison.frontier) html += frontier_figure(comparison, results);
  return html + kReading + "</body>\n</html>\n";
}

void write_report(const Comparison& comparison, const std::string& folder, Where where) {
  call_at(where, [&] { write_whole_file_in(folder, "index.html", report_html(comparison), "report"); });
}

}  // namespace sectionflow

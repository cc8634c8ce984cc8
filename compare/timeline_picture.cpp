#include "compare/timeline_picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/bytes.h"
#include "base/error.h"
#include "base/svg.h"

namespace sectionflow {
namespace {

// Units of the picture; about as many as a phone has pixels, so that its texts can be read there.
constexpr double kWidth = 400, kLeft = 6, kRight = 394, kPlotWidth = kRight - kLeft;
constexpr double kDeviceTop = 20, kDeviceBottom = 190;
constexpr double kOffloadedTop = 212, kOffloadedBottom = 262;
constexpr double kRowHeight = 11, kRowPitch = 29;
constexpr int kColumns = 388;
constexpr std::size_t kMostArcs = 60;

constexpr const char* kGrey = "fill:#5f6368";
constexpr const char* kFrame = "stroke:#b8bcc2;stroke-width:0.6";
constexpr const char* kHalo = "paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round";

using Bar = MemoryTimeline::Bar;
using Sample = MemoryTimeline::Sample;

double share_of(std::size_t bytes, std::size_t all) {
  return all == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(all);
}

double x_of(const MemoryTimeline& timeline, double at) {
  return kLeft + (timeline.end > 0 ? kPlotWidth * at / timeline.end : 0);
}

/// The outline of what lies between two heights, one pair a column.
std::vector<SvgPoint> outline_between(const std::vector<double>& lower, const std::vector<double>& upper) {
  const double step = kPlotWidth / static_cast<double>(lower.size());
  std::vector<SvgPoint> points;
  for (std::size_t i = 0; i < upper.size(); ++i) {
    points.push_back({kLeft + step * static_cast<double>(i), upper[i]});
    points.push_back({kLeft + step * static_cast<double>(i + 1), upper[i]});
  }
  for (std::size_t i = lower.size(); i-- > 0;) {
    points.push_back({kLeft + step * static_cast<double>(i + 1), lower[i]});
    points.push_back({kLeft + step * static_cast<double>(i), lower[i]});
  }
  return points;
}

void draw_device(Svg& svg, const MemoryTimeline& timeline, const std::vector<Sample>& columns,
                 const PictureScale& scale) {
  std::vector<std::size_t> below(columns.size(), 0);
  std::vector<double> lower(columns.size(), kDeviceBottom);
  for (std::size_t layer = 0; layer < timeline.layers.size(); ++layer) {
    std::vector<double> upper;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      below[i] += columns[i].device[layer];
      upper.push_back(device_height(scale, below[i]));
    }
    const MemoryTimeline::Layer& shown = timeline.layers[layer];
    const std::string colour = layer == 0 ? kVariablesColour : section_colour(shown.section);
    svg.area(outline_between(lower, upper), "fill:" + colour, shown.name);
    lower = std::move(upper);
  }
  svg.line({kLeft, kDeviceBottom}, {kRight, kDeviceBottom}, kFrame);
}

void draw_budget(Svg& svg, const PictureScale& scale) {
  if (scale.device_budget == 0) return;
  const std::string budget = "budget " + bytes_text(scale.device_budget);
  const std::string look = text_of("fill:", kBudgetColour, ";", kHalo);
  if (scale.device_budget > scale.device_bytes) {
    svg.text({kRight, kDeviceTop - 7}, budget + ", above this picture", "end", look);
    return;
  }
  const double y = device_height(scale, scale.device_budget);
  svg.line({kLeft, y}, {kRight, y}, text_of("stroke:", kBudgetColour, ";stroke-width:1.4;stroke-dasharray:6 3"));
  svg.text({kRight, y - 4}, budget, "end", look);
}

void draw_offloaded(Svg& svg, const std::vector<Sample>& columns, const PictureScale& scale) {
  std::vector<double> floor(columns.size(), kOffloadedBottom), host, both;
  std::size_t most_host = 0, most_disk = 0;
  for (const Sample& column : columns) {
    const double height = kOffloadedBottom - kOffloadedTop;
    host.push_back(kOffloadedBottom - height * share_of(column.host, scale.offloaded_bytes));
    both.push_back(kOffloadedBottom - height * share_of(column.host + column.disk, scale.offloaded_bytes));
    most_host = std::max(most_host, column.host);
    most_disk = std::max(most_disk, column.disk);
  }
  if (most_host > 0) svg.area(outline_between(floor, host), text_of("fill:", kHostColour), "in host memory");
  if (most_disk > 0) svg.area(outline_between(host, both), text_of("fill:", kDiskColour), "on disk");
  svg.line({kLeft, kOffloadedBottom}, {kRight, kOffloadedBottom}, kFrame);
  svg.text({kLeft, kOffloadedTop - 4},
           text_of("host ", bytes_text(most_host), ", disk ", bytes_text(most_disk), " at most"), "start", kGrey);
}

std::string pass_look(const Pass& pass) {
  const std::string colour = section_colour(pass.section);
  switch (pass.kind) {
    case Pass::Kind::recompute:
      return "fill:" + colour + ";fill-opacity:0.35;stroke:" + colour + ";stroke-width:0.8";
    case Pass::Kind::backward:
      return "fill:" + colour + ";fill-opacity:0.7";
    case Pass::Kind::forward:
    case Pass::Kind::whole:
      break;
  }
  return "fill:" + colour;
}

struct Row {
  const char* name;
  StepKind kind;
  const char* colour;
  bool communicates = false;

  bool has(const Bar& bar) const { return bar.kind == kind && bar.communicates == communicates; }
};
constexpr Row kRows[] = {{"compute", StepKind::compute, ""},
                         {"copy out", StepKind::copy_out, "#5b7f95"},
                         {"copy in", StepKind::copy_in, "#2e5d78"},
                         {"to disk", StepKind::disk_write, "#b08d4f"},
                         {"from disk", StepKind::disk_read, "#8a6d3b"},
                         {"ranks", StepKind::compute, "#7a5c99", true}};

std::string bar_title(const Bar& bar, bool timed) {
  const std::string took = timed ? text_of(", ", svg_number(bar.end - bar.start), " ms") : std::string();
  const bool computes = bar.kind == StepKind::compute && !bar.communicates;
  return computes ? bar.name + took : text_of(bar.name, ", ", bytes_text(bar.bytes), took);
}

/// Arcs for the largest offloads alone: hundreds of them would say nothing.
void draw_arcs(Svg& svg, const MemoryTimeline& timeline, double y_out, double y_in) {
  std::map<int, const Bar*> out;
  std::vector<std::pair<const Bar*, const Bar*>> offloads;
  for (const Bar& bar : timeline.bars) {
    if (bar.kind == StepKind::copy_out) out[bar.offload] = &bar;
  }
  for (const Bar& bar : timeline.bars) {
    const auto left = out.find(bar.offload);
    if (bar.kind == StepKind::copy_in && left != out.end()) offloads.emplace_back(left->second, &bar);
  }
  std::stable_sort(offloads.begin(), offloads.end(),
                   [](const auto& a, const auto& b) { return a.first->bytes > b.first->bytes; });
  if (offloads.size() > kMostArcs) offloads.resize(kMostArcs);
  for (const auto& [from, to] : offloads) {
    svg.arc({x_of(timeline, (from->start + from->end) / 2), y_out}, {x_of(timeline, (to->start + to->end) / 2), y_in},
            9, "fill:none;stroke:#5b7f95;stroke-width:0.7;stroke-opacity:0.55");
  }
}

bool shows(const Row& row, const MemoryTimeline& timeline) {
  const bool computes = row.kind == StepKind::compute && !row.communicates;
  return computes || std::any_of(timeline.bars.begin(), timeline.bars.end(), [&](const Bar& b) { return row.has(b); });
}

void draw_rows(Svg& svg, const MemoryTimeline& timeline, double top) {
  std::map<std::pair<StepKind, bool>, double> tops;  // by kind, and whether of communications
  for (const Row& row : kRows) {
    if (!shows(row, timeline)) continue;
    svg.text({kLeft, top + 11}, row.name, "start", kGrey);
    tops[{row.kind, row.communicates}] = top + 15;
    svg.line({kLeft, top + 15 + kRowHeight}, {kRight, top + 15 + kRowHeight}, kFrame);
    top += kRowPitch;
  }
  const auto out = tops.find({StepKind::copy_out, false}), in = tops.find({StepKind::copy_in, false});
  if (out != tops.end() && in != tops.end()) draw_arcs(svg, timeline, out->second + kRowHeight, in->second);
  for (const Bar& bar : timeline.bars) {
    const auto row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.has(bar); });
    if (row == std::end(kRows)) continue;
    const double x = x_of(timeline, bar.start);
    const bool computes = bar.kind == StepKind::compute && !bar.communicates;
    svg.rectangle({x, tops.at({bar.kind, bar.communicates})}, std::max(0.5, x_of(timeline, bar.end) - x), kRowHeight,
                  computes ? pass_look(bar.pass) : text_of("fill:", row->colour), bar_title(bar, timeline.timed));
  }
}

void draw_axis(Svg& svg, const MemoryTimeline& timeline, double y) {
  for (const int quarter : {0, 1, 2, 3, 4}) {
    const double at = timeline.end * quarter / 4, x = x_of(timeline, at);
    const char* anchor = quarter == 0 ? "start" : quarter == 4 ? "end" : "middle";
    const double shown = timeline.timed && timeline.end < 40 ? at : static_cast<double>(std::llround(at));
    const std::string number = svg_number(std::round(shown * 10) / 10);
    svg.line({x, y - 4}, {x, y}, kFrame);
    svg.text({x, y + 11}, quarter == 4 ? number + (timeline.timed ? " ms" : " steps") : number, anchor, kGrey);
  }
}

}  // namespace

std::string section_colour(GroupId section) {
  // Okabe and Ito's colours, which colour-blind readers tell apart; yellow is too light on white.
  constexpr std::array<const char*, 7> kColours = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                                   "#56b4e9", "#d55e00", "#7a68ae"};
  constexpr std::array<const char*, 7> kLighter = {"#7fb8d8", "#f2cf80", "#80cfb9", "#e5bcd3",
                                                   "#aad9f4", "#eaaf80", "#bcb3d6"};
  if (section == kNoGroup) return "#c9b8a0";
  const auto place = static_cast<std::size_t>(section) % (kColours.size() + kLighter.size());
  return place < kColours.size() ? kColours[place] : kLighter[place - kColours.size()];
}

double device_height(const PictureScale& scale, std::size_t bytes) {
  return kDeviceBottom - (kDeviceBottom - kDeviceTop) * share_of(bytes, scale.device_bytes);
}

std::string timeline_picture(const MemoryTimeline& timeline, const PictureScale& scale, const std::string& label) {
  const bool offloads = timeline.host_peak_bytes + timeline.disk_peak_bytes > 0;
  const double rows_top = offloads ? kOffloadedBottom + 4 : kDeviceBottom + 4;
  const auto num_rows =
      std::count_if(std::begin(kRows), std::end(kRows), [&](const Row& row) { return shows(row, timeline); });
  const double axis = rows_top + kRowPitch * static_cast<double>(num_rows) + 6;
  Svg svg(kWidth, axis + 18, label);
  const std::vector<Sample> columns = columns_of(timeline, kColumns);
  draw_device(svg, timeline, columns, scale);
  draw_budget(svg, scale);
  svg.text({kLeft, kDeviceTop - 7}, "device " + bytes_text(timeline.device_peak_bytes) + " planned", "start", kGrey);
  if (offloads) draw_offloaded(svg, columns, scale);
  draw_rows(svg, timeline, rows_top);
  draw_axis(svg, timeline, axis);
  return svg.finish();
}

}  // namespace sectionflow

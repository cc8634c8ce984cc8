#include "fit/budget_frontier.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/bytes.h"
#include "base/error.h"
#include "base/svg.h"
#include "base/text_table.h"
#include "swap/swap_notes.h"

namespace sectionflow {
namespace {

std::string percent_text(double share) {
  // A negative zero and zero are zero, which is shown without a sign.
  return std::isfinite(share) ? decimal_text(std::round(1e4 * share) / 1e2 + 0.0, 2) + " %" : "none";
}

constexpr double kWidth = 640, kHeight = 330, kLeft = 52, kRight = 620, kTop = 24, kBottom = 280;
constexpr const char* kGrey = "fill:#5f6368";
constexpr const char* kFrame = "stroke:#b8bcc2;stroke-width:0.6";
constexpr const char* kPlans = "#0072b2";
constexpr const char* kBound = "#009e73";
constexpr const char* kMark = "#d55e00";

/// Where bytes and overheads lie in the picture.
class Axes {
 public:
  Axes(const BudgetFrontier& frontier, const std::vector<PlanMark>& marks) {
    least_ = frontier.working_set_bytes;
    most_ = frontier.whole_peak_bytes;
    for (const BudgetPoint& point : frontier.points) {
      if (point.fits) highest_ = std::max(highest_, frontier.overhead(point.seconds));
    }
    for (const PlanMark& mark : marks) {
      least_ = std::min(least_, mark.bytes);
      most_ = std::max(most_, mark.bytes);
      highest_ = std::max(highest_, mark.overhead);
      lowest_ = std::min(lowest_, mark.overhead);
    }
    const std::size_t margin = (most_ - least_) / 20;
    least_ -= std::min(margin, least_);
    most_ += margin;
    highest_ = std::max(highest_ * 1.05, 0.01);
  }

  double x(std::size_t bytes) const {
    if (most_ == least_) return (kLeft + kRight) / 2;
    const double share =
        (static_cast<double>(bytes) - static_cast<double>(least_)) / static_cast<double>(most_ - least_);
    return kLeft + (kRight - kLeft) * share;
  }
  double y(double overhead) const {
    const double share = (std::min(overhead, highest_) - lowest_) / (highest_ - lowest_);
    return kBottom - (kBottom - kTop) * share;
  }
  double lowest() const { return lowest_; }
  double highest() const { return highest_; }
  std::size_t bytes_at(int quarter) const { return least_ + (most_ - least_) / 4 * static_cast<std::size_t>(quarter); }

 private:
  std::size_t least_ = 0, most_ = 0;
  double lowest_ = 0, highest_ = 0;
};

void draw_axes(Svg& svg, const Axes& axes) {
  for (const int quarter : {0, 1, 2, 3, 4}) {
    const double overhead = axes.lowest() + (axes.highest() - axes.lowest()) * quarter / 4;
    svg.line({kLeft, axes.y(overhead)}, {kRight, axes.y(overhead)}, kFrame);
    svg.text({kLeft - 5, axes.y(overhead) + 4}, decimal_text(100 * overhead, axes.highest() < 0.1 ? 1 : 0) + " %",
             "end", kGrey);
    const std::size_t bytes = axes.bytes_at(quarter);
    svg.text({axes.x(bytes), kBottom + 16}, bytes_text(bytes), quarter == 4 ? "end" : "middle", kGrey);
  }
  svg.text({kLeft - 40, kTop - 10}, "more time than with all memory", "start", kGrey);
  svg.text({kRight, kBottom + 34}, "device memory", "end", kGrey);
}

void draw_point(Svg& svg, SvgPoint at, const char* colour, double size, const std::string& title) {
  svg.rectangle({at.x - size / 2, at.y - size / 2}, size, size, text_of("fill:", colour), title);
}

/// What stands for the budgets between two points.
enum class Between { as_below, as_above };

/// In steps: of what lies between two points no more is known than one of them says.
void draw_steps(Svg& svg, const std::vector<SvgPoint>& points, Between between, const char* look) {
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    const SvgPoint from = points[i], to = points[i + 1];
    const SvgPoint corner = between == Between::as_below ? SvgPoint{to.x, from.y} : SvgPoint{from.x, to.y};
    svg.line(from, corner, look);
    svg.line(corner, to, look);
  }
}

void draw_legend(Svg& svg, bool has_marks) {
  struct Entry {
    const char *colour, *text;
  };
  constexpr std::array<Entry, 3> kEntries = {
      {{kPlans, "planned"}, {kBound, "no plan is below"}, {kMark, "marked plans"}}};
  double x = kLeft;
  for (std::size_t i = 0; i < (has_marks ? 3U : 2U); ++i) {
    draw_point(svg, {x + 4, kBottom + 30}, kEntries[i].colour, 8, "");
    svg.text({x + 12, kBottom + 34}, kEntries[i].text, "start", kGrey);
    x += 120;
  }
}

}  // namespace

double BudgetFrontier::overhead(double seconds) const {
  return whole_seconds > 0 ? seconds / whole_seconds - 1 : 0;
}

std::string BudgetFrontier::text() const {
  TextTable table({"device memory", "takes", "step", "more time", "no plan below", "recomputed", "copied out"});
  for (const BudgetPoint& point : points) {
    const double more_time = std::max(0.0, overhead(point.seconds));
    const double bound = std::max(0.0, overhead(point.bound_seconds));
    if (!point.fits) {
      table.add_row({bytes_text(point.budget_bytes), "", "", "none found", percent_text(bound), "", ""});
      continue;
    }
    table.add_row({bytes_text(point.budget_bytes), bytes_text(point.peak_bytes), milliseconds(point.seconds),
                   percent_text(more_time), percent_text(bound), text_of(point.recomputed_operations),
                   point.bytes_out > 0 ? bytes_text(point.bytes_out) : ""});
  }
  return table.text() + text_of("with all memory: ", bytes_text(whole_peak_bytes), ", ", milliseconds(whole_seconds),
                                "; nothing runs below ", bytes_text(working_set_bytes),
                                working_set_of.empty() ? "" : ", which " + working_set_of + " needs", "\n");
}

std::string BudgetFrontier::picture(const std::vector<PlanMark>& marks) const {
  const Axes axes(*this, marks);
  Svg svg(kWidth, kHeight, "Time of a training step over device memory, and what no plan is below");
  draw_axes(svg, axes);
  std::vector<SvgPoint> plans, bounds;
  for (const BudgetPoint& point : points) {
    if (std::isfinite(point.bound_seconds))
      bounds.push_back({axes.x(point.budget_bytes), axes.y(std::max(0.0, overhead(point.bound_seconds)))});
    if (point.fits) plans.push_back({axes.x(point.budget_bytes), axes.y(std::max(0.0, overhead(point.seconds)))});
  }
  // More memory has all plans of less, and what no plan is below with more it is not with less.
  draw_steps(svg, bounds, Between::as_above, "stroke:#009e73;stroke-width:1.4;stroke-dasharray:5 3");
  draw_steps(svg, plans, Between::as_below, "stroke:#0072b2;stroke-width:1.8");
  for (const BudgetPoint& point : points) {
    if (!point.fits) continue;
    const double more_time = std::max(0.0, overhead(point.seconds));
    draw_point(svg, {axes.x(point.budget_bytes), axes.y(more_time)}, kPlans, 5,
               text_of(bytes_text(point.budget_bytes), ": ", percent_text(more_time), ", no plan below ",
                       percent_text(std::max(0.0, overhead(point.bound_seconds)))));
  }
  for (const PlanMark& mark : marks) {
    const SvgPoint at = {axes.x(mark.bytes), axes.y(mark.overhead)};
    draw_point(svg, at, kMark, 8, text_of(mark.name, ": ", bytes_text(mark.bytes), ", ", percent_text(mark.overhead)));
    const bool is_right = at.x > (kLeft + kRight) / 2;
    svg.text({at.x + (is_right ? -8 : 8), at.y - 6}, mark.name, is_right ? "end" : "start",
             "paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round");
  }
  draw_legend(svg, !marks.empty());
  return svg.finish();
}

}  // namespace sectionflow

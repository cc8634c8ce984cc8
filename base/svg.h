#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/export.h"

// Not installed. Exported all the same: sectionflow_compare, a library of its own, draws.
namespace SF_API sectionflow {

/// Text that stands for itself between tags and in quoted attributes of XML and HTML. Control characters, which XML has
/// no way to say, become spaces.
std::string xml_escaped(std::string_view text);

/// A coordinate: at most two decimals, none that say nothing; the same in every locale.
std::string svg_number(double number);

struct SvgPoint {
  double x = 0, y = 0;
};

/// A picture, shape by shape from back to front. Knows no data. Texts and names are escaped here; `look` is CSS:
/// "fill:#eee;stroke:none".
class Svg {
 public:
  /// As wide as the page lets it be, in the proportions of width and height. `label` is read to those who do not see
  /// it.
  Svg(double width, double height, std::string_view label);

  /// `title` shows while a pointer stands on the shape; empty: none.
  void rectangle(SvgPoint corner, double width, double height, std::string_view look, std::string_view title = {});
  void line(SvgPoint from, SvgPoint to, std::string_view look);
  void area(const std::vector<SvgPoint>& outline, std::string_view look, std::string_view title = {});
  /// An arc between two points of a row, that hangs below it by `depth`.
  void arc(SvgPoint from, SvgPoint to, double depth, std::string_view look);
  /// `anchor`: "start", "middle" or "end" of the text stands at the point.
  void text(SvgPoint at, std::string_view text, std::string_view anchor = "start", std::string_view look = {});

  std::string finish() const { return text_ + "</svg>\n"; }

 private:
  void close(std::string_view tag, std::string_view look, std::string_view title);
  std::string text_;
};

}  // namespace sectionflow

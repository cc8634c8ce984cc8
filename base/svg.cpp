#include "base/svg.h"

#include <array>
#include <charconv>

#include "base/error.h"

namespace sectionflow {

std::string xml_escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return escaped;
}

std::string svg_number(double number) {
  std::array<char, 64> digits{};
  const auto [end, error] =
      std::to_chars(digits.data(), digits.data() + digits.size(), number, std::chars_format::fixed, 2);
  SF_CHECK(error == std::errc(), InternalError, "svg_number: a coordinate of ", number);
  std::string text(digits.data(), end);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

Svg::Svg(double width, double height, std::string_view label) {
  text_ = text_of("<svg viewBox=\"0 0 ", svg_number(width), " ", svg_number(height), "\" role=\"img\" aria-label=\"",
                  xml_escaped(label), "\" xmlns=\"http://www.w3.org/2000/svg\">\n");
}

void Svg::close(std::string_view tag, std::string_view look, std::string_view title) {
  if (!look.empty()) text_ += text_of(" style=\"", xml_escaped(look), "\"");
  text_ += title.empty() ? text_of("/>\n") : text_of("><title>", xml_escaped(title), "</title></", tag, ">\n");
}

void Svg::rectangle(SvgPoint corner, double width, double height, std::string_view look, std::string_view title) {
  text_ += text_of("<rect x=\"", svg_number(corner.x), "\" y=\"", svg_number(corner.y), "\" width=\"",
                   svg_number(width), "\" height=\"", svg_number(height), "\"");
  close("rect", look, title);
}

void Svg::line(SvgPoint from, SvgPoint to, std::string_view look) {
  text_ += text_of("<line x1=\"", svg_number(from.x), "\" y1=\"", svg_number(from.y), "\" x2=\"", svg_number(to.x),
                   "\" y2=\"", svg_number(to.y), "\"");
  close("line", look, {});
}

void Svg::area(const std::vector<SvgPoint>& outline, std::string_view look, std::string_view title) {
  if (outline.empty()) return;
  // Steps along the axes, of which an outline mostly consists, take one number each.
  std::string path = text_of("M", svg_number(outline[0].x), " ", svg_number(outline[0].y));
  std::string x = svg_number(outline[0].x), y = svg_number(outline[0].y);
  for (std::size_t i = 1; i < outline.size(); ++i) {
    std::string next_x = svg_number(outline[i].x), next_y = svg_number(outline[i].y);
    if (next_x == x && next_y == y) continue;
    path += next_y == y ? "H" + next_x : next_x == x ? "V" + next_y : text_of("L", next_x, " ", next_y);
    x = std::move(next_x);
    y = std::move(next_y);
  }
  text_ += text_of("<path d=\"", path, "Z\"");
  close("path", look, title);
}

void Svg::arc(SvgPoint from, SvgPoint to, double depth, std::string_view look) {
  text_ += text_of("<path d=\"M", svg_number(from.x), " ", svg_number(from.y), "Q", svg_number((from.x + to.x) / 2),
                   " ", svg_number((from.y + to.y) / 2 + depth), " ", svg_number(to.x), " ", svg_number(to.y), "\"");
  close("path", look, {});
}

void Svg::text(SvgPoint at, std::string_view text, std::string_view anchor, std::string_view look) {
  text_ += text_of("<text x=\"", svg_number(at.x), "\" y=\"", svg_number(at.y), "\" text-anchor=\"", anchor, "\"");
  if (!look.empty()) text_ += text_of(" style=\"", xml_escaped(look), "\"");
  text_ += text_of(">", xml_escaped(text), "</text>\n");
}

}  // namespace sectionflow

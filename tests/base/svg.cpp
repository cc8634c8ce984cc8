#include "base/svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sectionflow {
namespace {

using testing::HasSubstr;

TEST(XmlEscaped, LeavesNothingThatXmlWouldRead) {
  EXPECT_EQ(xml_escaped("a<b>&\"c'"), "a&lt;b&gt;&amp;&quot;c&#39;");
  EXPECT_EQ(xml_escaped(std::string("a\0b\x01", 4)), "a b ");
  EXPECT_EQ(xml_escaped("größe"), "größe");
}

TEST(SvgNumber, SaysNoMoreThanItMust) {
  EXPECT_EQ(svg_number(1), "1");
  EXPECT_EQ(svg_number(1.5), "1.5");
  EXPECT_EQ(svg_number(1.256), "1.26");
  EXPECT_EQ(svg_number(-0.001), "0");
  EXPECT_EQ(svg_number(100), "100");
}

TEST(Svg, ShapesStandInTheOrderOfDrawing) {
  Svg svg(40, 30, "a \"picture\"");
  svg.rectangle({1, 2}, 3, 4, "fill:red", "<title>");
  svg.line({0, 0}, {5, 5}, "");
  svg.text({1, 1}, "a&b", "end");
  EXPECT_EQ(svg.finish(),
            "<svg viewBox=\"0 0 40 30\" role=\"img\" aria-label=\"a &quot;picture&quot;\" "
            "xmlns=\"http://www.w3.org/2000/svg\">\n"
            "<rect x=\"1\" y=\"2\" width=\"3\" height=\"4\" style=\"fill:red\"><title>&lt;title&gt;</title></rect>\n"
            "<line x1=\"0\" y1=\"0\" x2=\"5\" y2=\"5\"/>\n"
            "<text x=\"1\" y=\"1\" text-anchor=\"end\">a&amp;b</text>\n"
            "</svg>\n");
}

TEST(Svg, OutlinesAreShort) {
  Svg svg(10, 10, "");
  svg.area({{0, 0}, {0, 0}, {5, 0}, {5, 2}, {7, 3}}, "");
  EXPECT_THAT(svg.finish(), HasSubstr("<path d=\"M0 0H5V2L7 3Z\"/>"));
  const std::string before = svg.finish();
  svg.area({}, "fill:red");
  EXPECT_EQ(svg.finish(), before);
}

}  // namespace
}  // namespace sectionflow

#include "base/text_table.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace sectionflow {
namespace {

TEST(TextTable, ColumnsAreAsWideAsTheyMustBe) {
  TextTable table({"name", "bytes", "unused", "ms"});
  table.add_row({"a", "12345678", "", "1"});
  table.add_row({"longer", "9", "", ""}, {"why"});
  EXPECT_EQ(table.text(),
            "name       bytes  ms\n"
            "a       12345678   1\n"
            "longer         9\n"
            "    why\n");
}

TEST(TextTable, HtmlIsEscaped) {
  TextTable table({"<name>", "unused"});
  table.add_row({"a & b", ""}, {"\"why\""});
  EXPECT_EQ(table.html(),
            "<table><thead><tr><th>&lt;name&gt;</th></tr></thead>\n<tbody>\n<tr><td>a &amp; b</td></tr>\n"
            "<tr class=\"remark\"><td colspan=\"1\"><div>&quot;why&quot;</div></td></tr>\n</tbody></table>\n");
}

TEST(TextTable, ARowHasACellAColumn) {
  TextTable table({"a", "b"});
  EXPECT_THROW(table.add_row({"1"}), InternalError);
}

TEST(DecimalText, AreAsManyAsAskedFor) {
  EXPECT_EQ(decimal_text(12.345, 2), "12.35");
  EXPECT_EQ(decimal_text(2, 0), "2");
  EXPECT_EQ(decimal_text(1e300, 1).size(), 303u);
}

}  // namespace
}  // namespace sectionflow

#include "base/text_table.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "base/svg.h"

namespace sectionflow {

std::string decimal_text(double number, int count) {
  std::array<char, 400> digits{};
  const auto [end, error] =
      std::to_chars(digits.data(), digits.data() + digits.size(), number, std::chars_format::fixed, count);
  SF_CHECK(error == std::errc(), InternalError, "decimals: ", count, " of them");
  return {digits.data(), end};
}

void TextTable::add_row(std::vector<std::string> cells, std::vector<std::string> remarks) {
  SF_CHECK(cells.size() == header_.size(), InternalError, "a table of ", header_.size(), " columns got a row of ",
           cells.size());
  rows_.push_back({std::move(cells), std::move(remarks)});
}

bool TextTable::is_used(std::size_t column) const {
  return std::any_of(rows_.begin(), rows_.end(), [&](const Row& row) { return !row.cells[column].empty(); });
}

std::string TextTable::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < header_.size(); ++i) {
    widths.push_back(header_[i].size());
    for (const Row& row : rows_) widths[i] = std::max(widths[i], row.cells[i].size());
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (!is_used(i)) continue;
      const std::string padding(widths[i] - cells[i].size(), ' ');
      text += text.empty() ? cells[i] + padding : "  " + padding + cells[i];
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  std::string text = line(header_);
  for (const Row& row : rows_) {
    text += line(row.cells);
    for (const std::string& remark : row.remarks) text += "    " + remark + "\n";
  }
  return text;
}

std::string TextTable::html() const {
  std::string html = "<table><thead><tr>";
  std::size_t columns = 0;
  for (std::size_t i = 0; i < header_.size(); ++i) {
    if (!is_used(i)) continue;
    html += "<th>" + xml_escaped(header_[i]) + "</th>";
    ++columns;
  }
  html += "</tr></thead>\n<tbody>\n";
  for (const Row& row : rows_) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      if (is_used(i)) html += "<td>" + xml_escaped(row.cells[i]) + "</td>";
    }
    html += "</tr>\n";
    for (const std::string& remark : row.remarks) {
      html += text_of("<tr class=\"remark\"><td colspan=\"", columns, "\"><div>", xml_escaped(remark),
                      "</div></td></tr>\n");
    }
  }
  return html + "</tbody></table>\n";
}

}  // namespace sectionflow

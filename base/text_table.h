#pragma once

#include <string>
#include <vector>

#include "base/export.h"

// Not installed. Exported all the same: sectionflow_compare, a library of its own, writes tables.
namespace SF_API sectionflow {

/// "12.49": a number with so many decimals; the same in every locale.
std::string decimal_text(double number, int count);

/// A table whose columns are as wide as they must be: the first to the left, the others to the right. Columns that have
/// nothing in any row are left out.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : header_(std::move(header)) {}

  /// One cell a column; and lines to stand below the row. Throws: InternalError for another number of cells.
  void add_row(std::vector<std::string> cells, std::vector<std::string> remarks = {});

  struct Row {
    std::vector<std::string> cells;
    std::vector<std::string> remarks;
  };
  const std::vector<std::string>& header() const { return header_; }
  const std::vector<Row>& rows() const { return rows_; }
  /// Whether any row has something in that column.
  bool is_used(std::size_t column) const;

  std::string text() const;
  /// A <table> of HTML, everything escaped.
  std::string html() const;

 private:
  std::vector<std::string> header_;
  std::vector<Row> rows_;
};

}  // namespace sectionflow

#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/export.h"
#include "data/source.h"

namespace SF_API sectionflow {

/// A tensor to be made of each line: of one column a scalar, of several a vector of as many elements, in their order.
/// {.name = "features", .columns = {"width", "height"}} is f32 [2], {.name = "label", .columns = {"species"}, .dtype =
/// Dtype::i32, .words = {"setosa", "virginica"}} is i32 [], 0 or 1.
struct CsvTensor {
  std::string name{};
  std::vector<std::string> columns{};
  Dtype dtype = Dtype::f32;
  /// What the columns hold instead of numbers, if not empty: an element is the place of its word in this list.
  std::vector<std::string> words{};
};

/// How a CSV file is written.
struct CsvOptions {
  char separator = ',';
  /// Fields may stand between two of these, and then have separators, line ends and, doubled, itself in them.
  char quote = '"';
  /// The first line names the columns; without it they are called "0", "1" and so on.
  bool has_header = true;
  std::size_t max_line_bytes = 1_MiB;  ///< of a line and of one that goes on within quotes
  /// Takes what is not finite, "nan", "inf", "-infinity", in columns of f32 and f64; refused otherwise, since one of
  /// them makes every weight that is trained from it so.
  bool allow_not_finite = false;
};

/// The lines of a CSV file, plain or gzip-compressed, as tensors. Empty lines are left out; white space around numbers
/// is, too. An empty field is no number, nor one of the words unless "" is among them: a column with gaps is to be
/// filled before. A stream that has thrown goes on with the next line. Throws: DataError naming file, line and column,
/// for a column that is not there or there more than once, a line with another number of fields, and what is no finite
/// number of the dtype or none of the words (a number nearer to 0 than any of its dtype is 0); ArgumentError for a
/// tensor without columns, for two of one name, and for bf16 and boolean. Source: RFC 4180.
std::shared_ptr<const StreamSource> csv_source(std::filesystem::path path, std::vector<CsvTensor> tensors,
                                               CsvOptions options = {});

}  // namespace sectionflow

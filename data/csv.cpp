#include "data/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/nearest.h"
#include "base/whole_file.h"
#include "data/byte_input.h"
#include "data/source_identity.h"

namespace sectionflow {
namespace {

/// What a source and its streams have in common.
struct CsvFile {
  std::filesystem::path path;
  std::vector<CsvTensor> tensors;
  CsvOptions options;
};

/// A file's lines in fields, one after the other.
class CsvLines {
 public:
  explicit CsvLines(const CsvFile& file)
      : options_(file.options),
        where_("CSV file '" + file.path.string() + "': "),
        input_(open_plain_or_gzip(file.path, "CSV file")),
        buffer_(64_KiB, '\0') {}

  /// Whether there is another line that is not empty; its fields are then in `fields`. After an error the next call
  /// goes on behind the line that it was about.
  bool next(std::vector<std::string>& fields) {
    fields.clear();
    first_line_ = line_;
    line_bytes_ = 0;
    is_quoted_line_ = false;
    for (;;) {
      const int first = peek();
      if (first < 0) {
        if (fields.empty()) return false;
        fields.emplace_back();  // behind a last separator
        return true;
      }
      const bool line_ended = read_field(fields);
      if (!line_ended) continue;
      if (fields.size() > 1 || !fields.front().empty() || is_quoted_line_) return true;
      fields.clear();
      first_line_ = line_;
      line_bytes_ = 0;
    }
  }

  /// "CSV file 'x.csv': line 12: "
  std::string where() const { return text_of(where_, "line ", first_line_, ": "); }

 private:
  int peek() {
    if (begin_ == end_ && !has_ended_) {
      has_ended_ = true;  // also where what follows cannot be read
      begin_ = end_ = 0;
      end_ = input_->read(buffer_.data(), buffer_.size());
      has_ended_ = end_ == 0;
    }
    return begin_ == end_ ? -1 : static_cast<unsigned char>(buffer_[begin_]);
  }
  int get() {
    const int next = peek();
    if (next < 0) return next;
    ++begin_;
    if (next == '\n') ++line_;
    if (++line_bytes_ > options_.max_line_bytes) {
      const std::string place = where();
      if (next != '\n') skip_line();
      throw DataError(error_text_of(place, "has more than ", options_.max_line_bytes, " bytes",
                                    hint("does a quote not end? Otherwise raise max_line_bytes")));
    }
    return next;
  }
  void skip_line() {
    int next = 0;
    do {
      next = peek();
      if (next >= 0) ++begin_;
    } while (next >= 0 && next != '\n');
    ++line_;
  }

  /// Whether the line ends behind it.
  bool read_field(std::vector<std::string>& fields) {
    std::string& field = fields.emplace_back();
    bool is_quoted = peek() == static_cast<unsigned char>(options_.quote) && options_.quote != '\0';
    if (is_quoted) {
      get();
      is_quoted_line_ = true;
    }
    for (int next = get(); next >= 0; next = get()) {
      if (is_quoted && next == static_cast<unsigned char>(options_.quote)) {
        if (peek() == next) {
          field += static_cast<char>(get());
        } else {
          is_quoted = false;
        }
      } else if (!is_quoted && next == static_cast<unsigned char>(options_.separator)) {
        return false;
      } else if (!is_quoted && next == '\n') {
        if (field.ends_with('\r')) field.pop_back();
        return true;
      } else {
        field += static_cast<char>(next);
      }
    }
    SF_CHECK(!is_quoted, DataError, where(), "the file ends within quotes", hint("is the download complete?"));
    return true;
  }

  CsvOptions options_;
  std::string where_;
  std::unique_ptr<ByteInput> input_;
  std::string buffer_;
  std::size_t begin_ = 0, end_ = 0;
  std::size_t line_bytes_ = 0;
  std::int64_t line_ = 1;        // being read
  std::int64_t first_line_ = 1;  // of the fields of the last call
  bool is_quoted_line_ = false;
  bool has_ended_ = false;
};

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

/// A field in an error's text.
std::string shown(std::string_view field) {
  std::string text;
  for (const char c : field.substr(0, 40)) text += c >= ' ' && c != '\x7f' ? c : '?';
  return text + (field.size() > 40 ? "..." : "");
}

/// Where one element of a tensor comes from.
struct Cell {
  std::size_t field = 0;
  std::string column;
};

/// Whether a number that is out of range is too near 0 rather than too far from it: whether its first digit stands
/// behind the point.
bool is_near_zero(std::string_view number) {
  constexpr std::int64_t kFar = std::int64_t{1} << 40;  // beyond the digits of any line
  const std::size_t mark = std::min(number.find_first_of("eE"), number.size());
  const std::string_view digits = number.substr(0, mark);
  std::string_view power = number.substr(std::min(mark + 1, number.size()));
  if (power.starts_with('+')) power.remove_prefix(1);
  std::int64_t exponent = 0;
  const auto parsed = std::from_chars(power.data(), power.data() + power.size(), exponent);
  if (parsed.ec == std::errc::result_out_of_range) exponent = power.starts_with('-') ? -kFar : kFar;
  const auto point = static_cast<std::int64_t>(std::min(digits.find('.'), digits.size()));
  const auto first = static_cast<std::int64_t>(digits.find_first_of("123456789"));
  const std::int64_t place = first < point ? point - first - 1 : point - first;  // the power of ten of the first digit
  return place + std::clamp(exponent, -kFar, kFar) < 0;
}

template <class T>
bool parse_number(std::string_view text, T& number) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || end != text.data() + text.size()) return false;
  if constexpr (std::is_floating_point_v<T>) {
    if (failed == std::errc::result_out_of_range && is_near_zero(text)) {
      number = text.starts_with('-') ? -T{0} : T{0};
      return true;
    }
  }
  return failed == std::errc();
}

class CsvStream final : public ExampleStream {
 public:
  explicit CsvStream(std::shared_ptr<const CsvFile> file) : file_(std::move(file)), lines_(*file_) { find_columns(); }

  std::optional<Example> next() override {
    if (!next_line()) return std::nullopt;
    Example example;
    for (std::size_t i = 0; i < file_->tensors.size(); ++i)
      example.emplace(file_->tensors[i].name, tensor_of(file_->tensors[i], cells_[i]));
    return example;
  }
  std::int64_t skip(std::int64_t count) override {
    std::int64_t done = 0;
    while (done < count && next_line()) ++done;
    return done;
  }

 private:
  bool next_line() {
    const bool is_there = is_first_kept_ || lines_.next(fields_);
    is_first_kept_ = false;
    if (!is_there) return false;
    SF_CHECK(fields_.size() == num_columns_, DataError, lines_.where(), "has ", fields_.size(),
             " fields, the first line ", num_columns_);
    return true;
  }

  [[noreturn]] void refuse_column(const std::string& column, const CsvTensor& tensor,
                                  const std::map<std::string, std::size_t, std::less<>>& places) const {
    std::vector<std::string> names(places.size());
    std::transform(places.begin(), places.end(), names.begin(), [](const auto& place) { return place.first; });
    const NamesInFile known = names_in_file(
        column, names, "columns are called as in the first line, or by their number where has_header is false");
    throw DataError(error_text_of(lines_.where(), "there is no column '", column, "' for the tensor '", tensor.name,
                                  "' among ", num_columns_, ": ", known.list, known.hint));
  }

  void find_columns() {
    if (!lines_.next(fields_)) fields_.clear();
    num_columns_ = fields_.size();
    std::map<std::string, std::size_t, std::less<>> places;
    std::set<std::string> repeated;
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      std::string name = file_->options.has_header ? fields_[i] : std::to_string(i);
      constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
      if (i == 0 && name.starts_with(kByteOrderMark)) name.erase(0, kByteOrderMark.size());
      if (!places.emplace(trimmed(name), i).second) repeated.emplace(trimmed(name));
    }
    is_first_kept_ = !file_->options.has_header && num_columns_ > 0;
    // A file without a line has no columns; it has no examples either.
    if (num_columns_ == 0 && !file_->options.has_header) return;
    for (const CsvTensor& tensor : file_->tensors) {
      auto& cells = cells_.emplace_back();
      for (const std::string& column : tensor.columns) {
        const auto found = places.find(column);
        if (found == places.end()) refuse_column(column, tensor, places);
        SF_CHECK(!repeated.contains(column), DataError, lines_.where(), "more than one column is called '", column,
                 "', which the tensor '", tensor.name, "' asks for",
                 hint("give them names of their own, or leave out the first line and read by number"));
        cells.push_back({found->second, column});
      }
    }
  }

  HostTensor tensor_of(const CsvTensor& wanted, const std::vector<Cell>& cells) const {
    const auto count = static_cast<std::int64_t>(cells.size());
    HostTensor tensor(wanted.dtype, count == 1 ? Shape{} : Shape{count});
    switch (wanted.dtype) {
      case Dtype::f64:
        fill<double>(tensor, wanted, cells);
        break;
      case Dtype::i32:
        fill<std::int32_t>(tensor, wanted, cells);
        break;
      case Dtype::i64:
        fill<std::int64_t>(tensor, wanted, cells);
        break;
      case Dtype::i8:
        fill<std::int8_t>(tensor, wanted, cells);
        break;
      case Dtype::u8:
        fill<std::uint8_t>(tensor, wanted, cells);
        break;
      default:
        fill<float>(tensor, wanted, cells);
    }
    return tensor;
  }

  template <class T>
  void fill(HostTensor& tensor, const CsvTensor& wanted, const std::vector<Cell>& cells) const {
    const auto values = tensor.values<T>();
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string_view field = fields_[cells[i].field];
      if (wanted.words.empty()) {
        SF_CHECK(!trimmed(field).empty(), DataError, lines_.where(), "column '", cells[i].column,
                 "' is empty; wanted a number of ", dtype_name(wanted.dtype),
                 hint("fill the gaps of the column, or leave such lines out by Dataset::on_error"));
        SF_CHECK(parse_number(trimmed(field), values[i]), DataError, lines_.where(), "column '", cells[i].column,
                 "' has '", shown(field), "'; wanted a number of ", dtype_name(wanted.dtype));
        check_finite(values[i], cells[i]);
        continue;
      }
      const auto found = std::find(wanted.words.begin(), wanted.words.end(), field);
      SF_CHECK(found != wanted.words.end(), DataError, lines_.where(), "column '", cells[i].column, "' has '",
               shown(field), "'; wanted one of the ", wanted.words.size(), " words of '", wanted.name, "'");
      values[i] = static_cast<T>(found - wanted.words.begin());
    }
  }

  template <class T>
  void check_finite(T number, const Cell& cell) const {
    if constexpr (std::is_floating_point_v<T>) {
      SF_CHECK(std::isfinite(number) || file_->options.allow_not_finite, DataError, lines_.where(), "column '",
               cell.column, "' has '", shown(fields_[cell.field]), "', which is not finite; wanted a finite number",
               hint("mend the file, leave such lines out by Dataset::on_error, or take what is not finite by "
                    "CsvOptions::allow_not_finite"));
    }
  }

  std::shared_ptr<const CsvFile> file_;
  CsvLines lines_;
  std::vector<std::string> fields_;
  std::vector<std::vector<Cell>> cells_;  // of each tensor
  std::size_t num_columns_ = 0;
  bool is_first_kept_ = false;  // the first line is an example, and has been read
};

class CsvSource final : public StreamSource {
 public:
  explicit CsvSource(CsvFile file) : file_(std::make_shared<CsvFile>(std::move(file))) {}
  std::string name() const override { return "CSV '" + file_->path.string() + "'"; }
  std::string identity() const override {
    return identity_.get([&] { return "CSV " + identity_of_files({file_->path}); });
  }
  std::unique_ptr<ExampleStream> open() const override { return std::make_unique<CsvStream>(file_); }

 private:
  TextOnce identity_;
  std::shared_ptr<const CsvFile> file_;
};

}  // namespace

std::shared_ptr<const StreamSource> csv_source(std::filesystem::path path, std::vector<CsvTensor> tensors,
                                               CsvOptions options) {
  SF_CHECK(!tensors.empty(), ArgumentError, "csv_source: no tensors; wanted one at least");
  SF_CHECK(options.separator != options.quote && options.separator != '\n', ArgumentError,
           "csv_source: the separator is the quote or a line's end");
  std::set<std::string> names;
  for (const CsvTensor& tensor : tensors) {
    SF_CHECK(names.insert(tensor.name).second, ArgumentError, "csv_source: two tensors are called '", tensor.name, "'");
    SF_CHECK(!tensor.columns.empty(), ArgumentError, "csv_source: the tensor '", tensor.name, "' has no columns");
    SF_CHECK(tensor.dtype != Dtype::bf16 && tensor.dtype != Dtype::boolean, ArgumentError, "csv_source: the tensor '",
             tensor.name, "' is ", dtype_name(tensor.dtype), "; wanted f32, f64, i32, i64, i8 or u8");
    SF_CHECK(tensor.dtype != Dtype::u8 || tensor.words.size() <= 256, ArgumentError, "csv_source: the tensor '",
             tensor.name, "' is u8 and has ", tensor.words.size(), " words; wanted at most 256, or i32");
  }
  CsvFile file{std::move(path), std::move(tensors), options};
  CsvStream{std::make_shared<CsvFile>(file)};  // that it can be opened, and has the columns
  return std::make_shared<CsvSource>(std::move(file));
}

}  // namespace sectionflow

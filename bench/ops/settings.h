#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/ops/window.h"

namespace sectionflow::bench {

/// Sizes as in "32x56x56x64". Throws: ArgumentError, beginning with `what`, for another text and for sizes below 1.
std::vector<std::int64_t> parse_sizes(const std::string& text, const std::string& what);
/// The inverse.
std::string sizes_text(const std::vector<std::int64_t>& sizes);

/// What may be said of an operation besides shape and dtype: "--stride" on the command line.
struct SettingKind {
  const char* name;
  const char* help;
};
std::span<const SettingKind> setting_kinds();

/// Settings by name, as they were given.
using SettingTexts = std::map<std::string, std::string>;

/// All settings of one operation, given or not.
class Settings {
 public:
  /// `texts`: name and value of each, in the order in which they are shown.
  Settings(std::string op, std::vector<std::pair<std::string, std::string>> texts)
      : op_(std::move(op)), texts_(std::move(texts)) {}

  const std::vector<std::pair<std::string, std::string>>& texts() const { return texts_; }
  /// "kernel 3, stride 1"; empty without settings.
  std::string summary() const;

  // Throws: ArgumentError naming operation, setting and value for a value of another kind.

  /// A count, 1 or more.
  std::int64_t count(const std::string& name) const;
  /// An axis; negative ones count from the end. Whether the tensor has it, is for the operation to say.
  int axis(const std::string& name) const;
  bool yes_or_no(const std::string& name) const;
  /// One number for all axes, or one an axis.
  template <std::size_t rank>
  PerAxis<rank> per_axis(const std::string& name) const {
    const std::vector<std::int64_t> numbers = numbers_of(name, rank, 1);
    std::array<std::int64_t, rank> all;
    for (std::size_t i = 0; i < rank; ++i) all[i] = numbers[i];
    return all;
  }
  /// same, valid, or as per_axis; then 0 is a number, too.
  template <std::size_t rank>
  SpatialPadding<rank> padding(const std::string& name) const {
    if (text(name) == "same") return SpatialPadding<rank>::same;
    if (text(name) == "valid") return SpatialPadding<rank>::valid;
    const std::vector<std::int64_t> numbers = numbers_of(name, rank, 0);
    PerAxis<rank> all;
    for (std::size_t i = 0; i < rank; ++i) all[i] = numbers[i];
    return {all, all};
  }

 private:
  const std::string& text(const std::string& name) const;
  std::vector<std::int64_t> numbers_of(const std::string& name, std::size_t rank, std::int64_t least) const;
  [[noreturn]] void refuse(const std::string& name, const std::string& wanted) const;

  std::string op_;
  std::vector<std::pair<std::string, std::string>> texts_;
};

}  // namespace sectionflow::bench

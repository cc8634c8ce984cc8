#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "base/error.h"
#include "base/host_tensor.h"

namespace sectionflow {

/// The longest name in a file of a graph.
inline constexpr std::size_t kMostNameBytes = 4096;

/// A value of a JSON text that somebody else wrote, and the path to it: "nodes[12].options.stride[0]". What is asked of
/// it is there, or it throws a DataError (SF-E402) with the path as fact "at". The JSON must outlive it.
class JsonItem {
 public:
  JsonItem(const nlohmann::json& value, std::string path) : value_(&value), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  /// Throws: DataError that says of this value what came and what was wanted.
  [[noreturn]] void refuse(const ErrorText& text) const;
  [[noreturn]] void refuse_kind(const std::string& wanted) const;

  /// Members of an object.
  bool has(const char* name) const;
  JsonItem member(const char* name) const;
  /// Refuses members that are none of `known`, with the nearest spelling.
  void check_members(std::span<const std::string> known) const;

  /// Elements of an array.
  std::size_t size() const;
  JsonItem operator[](std::size_t index) const;

  bool is_null() const;
  bool boolean() const;
  std::int64_t integer(std::int64_t least = INT64_MIN, std::int64_t most = INT64_MAX) const;
  /// A number, or what json_of_number writes for one that JSON has not.
  double number() const;
  const std::string& text(std::size_t most_bytes = kMostNameBytes) const;
  /// The number of the text among `names`.
  std::size_t one_of(std::span<const std::string> names, const char* what) const;

  Dtype dtype() const;
  Shape shape() const;
  TensorType type() const;

 private:
  const nlohmann::json* value_;
  std::string path_;
};

/// Throws: DataError (SF-E402) for the value at `path`.
[[noreturn]] void refuse_at(const std::string& path, const ErrorText& text);

/// The same number, bit for bit: "infinity", "-infinity" and "nan:7ff8000000000000" where JSON has no number.
nlohmann::ordered_json json_of_number(double number);
nlohmann::ordered_json json_of_type(const TensorType& type);

}  // namespace sectionflow

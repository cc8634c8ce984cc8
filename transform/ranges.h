#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// The smallest and the largest value of a tensor that count, in its own units; what lies beyond is cut off by 8 bits.
struct ValueRange {
  float minimum = 0, maximum = 0;  ///< finite, minimum <= maximum

  friend bool operator==(const ValueRange&, const ValueRange&) = default;
};

/// The ranges of some tensors of a graph, by their names (Value::name). Part of an InferenceGraph: transforms keep
/// those of tensors that are still there with the same values, under the names that these then have, and files hold
/// them.
class ValueRanges {
 public:
  using Map = std::map<std::string, ValueRange, std::less<>>;

  /// Throws: ArgumentError naming the tensor, for a range that is not finite or ends before it begins.
  void set(const std::string& tensor, ValueRange range);
  void set(const Value& value, ValueRange range) { set(value.name(), range); }
  /// Drops it where there is one.
  void drop(std::string_view tensor);
  /// None where nothing is known.
  std::optional<ValueRange> of(std::string_view tensor) const;
  std::optional<ValueRange> of(const Value& value) const { return of(value.name()); }

  bool empty() const { return ranges_.empty(); }
  std::size_t size() const { return ranges_.size(); }
  /// In the order of the names.
  Map::const_iterator begin() const { return ranges_.begin(); }
  Map::const_iterator end() const { return ranges_.end(); }
  friend bool operator==(const ValueRanges&, const ValueRanges&) = default;

 private:
  Map ranges_;
};

/// The values that have ranges, in the order of the names. Throws: ArgumentError, which `call` begins, for a name that
/// is no tensor of the graph, with the nearest, and for one that is no f32 or bf16.
std::map<std::string, Value> values_of_ranges(const Graph& graph, const ValueRanges& ranges, std::string_view call);

}  // namespace sectionflow

#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "graph/json_item.h"

namespace sectionflow {

// Limits of a file of a graph, so that a damaged one costs no memory.
inline constexpr std::size_t kMostGraphFileBytes = 100'000'000;
inline constexpr int kMostJsonDepth = 64;
inline constexpr std::size_t kMostJsonValues = 1 << 20;  ///< in one element

/// Who takes what read_json_elements reads.
struct JsonElementTaker {
  /// A member begins: its name.
  std::function<void(const std::string& member)> begin{};
  /// An element of the member, if that is an array, with its number; otherwise the whole member.
  std::function<void(const std::string& member, std::optional<std::size_t> index, const JsonItem& element)> take{};
};

/// Reads a JSON object whose large members are arrays, and never holds more than one element of them.
/// Throws: DataError (SF-E402) for what is no JSON object, a member that is there twice, a nesting or a text beyond the
/// limits; and what `taker` throws.
void read_json_elements(std::string_view text, const JsonElementTaker& taker);

}  // namespace sectionflow

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/export.h"

namespace SF_API sectionflow {

/// The indices of one operand, or of the result, as they are written.
struct IndexTerm {
  static constexpr int kNoEllipsis = -1;

  std::string letters{};
  int ellipsis = kNoEllipsis;  ///< how many of the letters stand in front of "..."

  bool has_ellipsis() const { return ellipsis != kNoEllipsis; }
};

/// What the text of an einsum says; of an implicit result, which one that is.
struct EinsumText {
  std::vector<IndexTerm> operands;
  IndexTerm result;
};

/// Reads a text: letters, one "..." a term, "," between operands, "->" in front of the result, white space anywhere
/// between them. Without "->" the result has "...", if an operand has, then the letters that stand once in the whole
/// text, in the order of ASCII. Throws: ArgumentError that begins with `label` and names the place.
EinsumText read_einsum(const std::string& label, std::string_view text);

/// The text as messages show it, in single quotes: bytes that are no printable ASCII as "\x07", and its beginning alone
/// where it is long.
std::string quoted_einsum(std::string_view text);

}  // namespace sectionflow

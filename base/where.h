#pragma once

#include <string>

#include "base/export.h"

namespace SF_API sectionflow {

/// A line of source, for error texts. As the default of a last parameter, `Where where = Where::here()`, it is the line
/// of the call.
struct Where {
  const char* file = nullptr;
  int line = 0;

  static constexpr Where here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
  constexpr bool known() const { return file != nullptr; }
  /// "model.cpp:84", without folders; empty where it is not known.
  std::string text() const;
};

}  // namespace sectionflow

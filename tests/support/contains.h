#pragma once

#include <string>

namespace sectionflow::testing_support {

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace sectionflow::testing_support

#include "base/where.h"

#include <string_view>

namespace sectionflow {

std::string Where::text() const {
  if (!known()) return {};
  const std::string_view path = file;
  return std::string(path.substr(path.find_last_of('/') + 1)) + ":" + std::to_string(line);
}

}  // namespace sectionflow

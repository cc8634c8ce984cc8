#include "schedule/signature.h"

namespace sectionflow {

std::string Signature::text() const {
  std::string result;
  for (const auto& [node, shape] : shapes) result += std::to_string(node) + shape.text() + ";";
  for (const auto& [node, boolean] : booleans) result += std::to_string(node) + (boolean ? "=true;" : "=false;");
  return result;
}

}  // namespace sectionflow

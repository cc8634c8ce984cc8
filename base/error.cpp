#include "base/error.h"

namespace sectionflow {

void Error::add_fact(const std::string& name, const std::string& fact) {
  const std::string start = "\n  " + name + ":";
  if (fact.empty() || text_.find(start) != std::string::npos) return;
  // Facts stand in one column behind the longest name, "inputs:".
  text_ += start + std::string(start.size() < 12 ? 12 - start.size() : 1, ' ') + fact;
}

}  // namespace sectionflow

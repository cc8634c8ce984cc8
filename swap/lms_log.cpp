#include "swap/lms_log.h"

#include <glog/logging.h>

#include <cstdio>

namespace sectionflow {

void LmsLog::write(int level, int indent, const std::string& text) {
  const std::string line = text_of("[LMS][", level, "] ", std::string(static_cast<std::size_t>(indent), ' '), text);
  LOG(INFO) << line;
  lines_.push_back(line);
}

void LmsLog::control_edge(const Graph& graph, const LmsLevels& levels, NodeId before, NodeId swap, NodeId reader) {
  if (!shows(1)) return;
  detail(1, 2, "control edge from ", graph.node(before).name(), " (level ", levels.of(before), ") to ",
         graph.node(swap).name(), ", for ", graph.node(reader).name(), " (level ", levels.of(reader), ")");
}

std::string decimals(double number, int count) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", count, number);
  return text;
}

std::string gib_text(std::size_t bytes) {
  return decimals(static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0));
}

}  // namespace sectionflow

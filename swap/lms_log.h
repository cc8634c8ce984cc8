#pragma once

#include <string>
#include <vector>

#include "swap/lms_levels.h"

namespace sectionflow {

/// The lines of one run of Lms: "[LMS][0] text" in the log, and kept for the result. Lines of level 1 and 2 are there
/// with `debug` only.
class LmsLog {
 public:
  LmsLog(bool debug, int debug_level) : most_(debug ? debug_level : 0) {}

  template <class... Parts>
  void info(int indent, const Parts&... parts) {
    detail(0, indent, parts...);
  }
  template <class... Parts>
  void detail(int level, int indent, const Parts&... parts) {
    if (level <= most_) write(level, indent, text_of(parts...));
  }
  bool shows(int level) const { return level <= most_; }
  void control_edge(const Graph& graph, const LmsLevels& levels, NodeId before, NodeId swap, NodeId reader);

  std::vector<std::string> take() { return std::move(lines_); }

 private:
  void write(int level, int indent, const std::string& text);

  int most_;
  std::vector<std::string> lines_;
};

/// "12.49": a number with so many decimals.
std::string decimals(double number, int count = 2);
/// Bytes as GiB with two decimals, without the unit.
std::string gib_text(std::size_t bytes);

}  // namespace sectionflow

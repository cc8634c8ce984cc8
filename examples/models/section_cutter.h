#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sections/graph_section_manager.h"

namespace sectionflow {

/// How a model is cut into sections: a number of them, spread evenly over the model's natural blocks, one a block, or
/// as GraphSectionManager::place_cuts places them, which has been called then.
struct Cut {
  int sections = 1;  ///< 0: one a block; -1: placed
  static const Cut blocks, placed;

  friend bool operator==(const Cut&, const Cut&) = default;
};
inline constexpr Cut Cut::blocks{0};
inline constexpr Cut Cut::placed{-1};

/// "1", "2", "4", any other number of sections, "blocks" or "placed". Throws: ArgumentError for anything else.
Cut cut_named(const std::string& name);

/// Which blocks begin a section: `sections` of them, the first among them, as evenly as can be; none where the cut is
/// placed. Throws: ArgumentError for more sections than blocks.
std::vector<bool> section_begins(const Cut& cut, int num_blocks);

/// Opens sections one after the other while a model is built: each `cut()` ends the section before. Where the cut is
/// placed it opens none.
class SectionCutter {
 public:
  SectionCutter(GraphSectionManager& manager, const Cut& how) : manager_(manager), is_placed_(how == Cut::placed) {
    cut();
  }
  void cut() {
    scope_.reset();
    if (is_placed_) return;
    scope_.emplace(manager_.new_section());
  }
  /// Ends the last section.
  void end() { scope_.reset(); }

 private:
  GraphSectionManager& manager_;
  bool is_placed_;
  std::optional<SectionScope> scope_;
};

}  // namespace sectionflow

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sections/graph_section_manager.h"

namespace sectionflow {

/// How a model is cut into sections: a number of them, spread evenly over the model's natural blocks, or one a block.
struct Cut {
  int sections = 1;  ///< 0: one a block
  static const Cut blocks;

  friend bool operator==(const Cut&, const Cut&) = default;
};
inline constexpr Cut Cut::blocks{0};

/// "1", "2", "4", any other number of sections, or "blocks". Throws: ArgumentError for anything else.
Cut cut_named(const std::string& name);

/// Which blocks begin a section: `sections` of them, the first among them, as evenly as can be.
/// Throws: ArgumentError for more sections than blocks.
std::vector<bool> section_begins(const Cut& cut, int num_blocks);

/// Opens sections one after the other while a model is built: each `cut()` ends the section before.
class SectionCutter {
 public:
  explicit SectionCutter(GraphSectionManager& manager) : manager_(manager) { cut(); }
  void cut() {
    scope_.reset();
    scope_.emplace(manager_.new_section());
  }
  /// Ends the last section.
  void end() { scope_.reset(); }

 private:
  GraphSectionManager& manager_;
  std::optional<SectionScope> scope_;
};

}  // namespace sectionflow

#pragma once

#include <optional>

#include "sections/graph_section_manager.h"

namespace sectionflow {

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

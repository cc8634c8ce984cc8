#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compare/memory_timeline.h"
#include "fit/explain.h"
#include "runtime/session.h"

namespace sectionflow {

/// What a section takes of device memory in a planned step.
struct SectionMemory {
  std::string name{};          ///< "section 2", "outside of sections"
  std::size_t held_bytes = 0;  ///< the most of its own values that are there at once
  std::size_t peak_bytes = 0;  ///< all that is there while it runs: 0 where it has no run of its own
};

/// What `sectionflow plan` finds out.
struct PlannedStep {
  std::string model{}, strategy{}, device{};
  std::int64_t batch = 0;
  double link_bandwidth = 0;  ///< bytes a second and direction; 0: unlimited
  bool copy_threads = false, swap_variables = false;
  bool metrics = false;        ///< whether it gives what train tells besides the loss
  bool lacks_metrics = false;  ///< train, which tells more of this model, may take more
  bool is_limited = false;     ///< whether a budget of device memory was given
  bool fits = false;
  std::string misfit{};                   ///< why it does not fit, in full
  std::optional<ProgramReport> report{};  ///< absent where already the strategy's planner finds nothing that fits
  std::vector<SectionMemory> sections{};
  /// The smallest budget of device memory that the strategy is told to run in, with as little as it can.
  std::optional<std::size_t> smallest_budget{};
  bool smallest_is_exact = false;
  std::string stopped{};            ///< what a signal has ended the search for, for people; empty: nothing
  bool smallest_is_enough = false;  ///< it runs in that much, and perhaps, by another plan, in less
  std::optional<Explanation> explanation{};
  std::optional<BudgetFrontier> frontier{};

  /// For people.
  std::string text() const;
  std::string json() const;
};

/// Of a planned timeline.
std::vector<SectionMemory> section_memory(const MemoryTimeline& timeline);

}  // namespace sectionflow

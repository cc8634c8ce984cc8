#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/memory_limit.h"
#include "fit/written_list.h"
#include "graph/graph.h"

namespace sectionflow {

/// The text without what is no UTF-8 and what moves a terminal's cursor.
std::string plain_text(const std::string& text);

/// What tells models apart before anything of them is executed: their trained variables.
struct ModelFacts {
  std::int64_t variables = 0, bytes = 0;
  std::string types{};  ///< hash of their types, in order

  static ModelFacts of(const Graph& graph);
  /// "31 trained variables of 1.35 MiB"
  std::string text() const;
  friend bool operator==(const ModelFacts&, const ModelFacts&) = default;
};

/// What is in the file of a plan.
struct PlanContent {
  std::string device{};   ///< a note: where it was planned
  TierBudgets budgets{};  ///< for which it was planned
  std::string profile{};  ///< a note: "nominal", or the hash of a measured profile's text
  ModelFacts model{};
  std::vector<ProgramPlan> programs{};

  /// The program of that fingerprint; nullptr where there is none.
  const ProgramPlan* find(const std::string& fingerprint) const;
  /// Adds a program, in the place of one of that fingerprint.
  void put(ProgramPlan program);
  std::string text() const;
};

}  // namespace sectionflow

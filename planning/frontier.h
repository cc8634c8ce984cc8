#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "planning/evaluate.h"
#include "planning/problem.h"

namespace sectionflow::planning {

struct FrontierOptions {
  int num_rungs = 0;  ///< 2 to 1000; 0: default_rungs
  bool order_fixed = false;
  /// Moves for all rungs together; 0: default_frontier_effort. Below one round for each (round_of_moves), plans are
  /// those of walks alone.
  std::int64_t effort = 0;
  std::uint64_t seed = 1;
  std::function<void(int rungs_done)> progress{};
};

/// Plans without copies for a ladder of budgets, from the largest working set to the peak of the default plan. Where
/// memory is short and each byte of it dear, rungs are closer together. Each is the best of the one below and of what a
/// search finds, so that a greater budget is never slower. What a plan is depends on nothing but problem, options and
/// its rung.
class Frontier {
 public:
  struct Rung {
    std::int64_t budget = 0;
    std::optional<Plan> plan{};  ///< none: none was found
    Evaluation evaluation{};
  };

  /// `problem` must outlive this. Throws: ArgumentError of check_problem; for a number of rungs that is none, or an
  /// effort below 0.
  Frontier(const Problem& problem, FrontierOptions options);

  int num_rungs() const { return options_.num_rungs; }
  /// Bytes; ascending, the last one is the default plan's peak.
  std::int64_t budget_of(int rung) const;
  /// Searched for when it is first asked for, with all below it.
  const Rung& rung(int index);
  /// Those that have been searched for, from the lowest up.
  std::span<const Rung> known() const { return rungs_; }
  /// The last rung whose budget is at most so many bytes; -1: none.
  int last_within(std::int64_t bytes) const;

 private:
  const Problem& problem_;
  FrontierOptions options_;
  std::int64_t least_ = 0, most_ = 0;
  std::vector<Rung> rungs_;
};

/// 96 for hundreds of operations, fewer for thousands.
int default_rungs(const Problem& problem);
/// The effort that is worth its time for a ladder of so many rungs.
std::int64_t default_frontier_effort(const Problem& problem, int num_rungs);

}  // namespace sectionflow::planning

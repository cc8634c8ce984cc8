#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "planning/evaluate.h"
#include "planning/ladder.h"
#include "planning/problem.h"
#include "planning/search.h"

namespace sectionflow::planning {

struct FrontierOptions {
  int num_rungs = 0;  ///< 2 to 1000; 0: default_rungs
  bool order_fixed = false;
  /// Moves for all rungs together; 0: default_frontier_effort. Below half a round for each (round_of_moves),
  /// plans are made and not searched for.
  std::int64_t effort = 0;
  std::uint64_t seed = 1;
  std::function<void(int rungs_done)> progress{};  ///< behind each round of each search; what it throws ends that
  std::function<void()> check{};                   ///< as SearchOptions::check, of each search
};

/// Plans without copies for a ladder of budgets, from the largest working set to the peak of the default plan. Each is
/// the best of what searches find for its budget and for those below, so that a greater budget is never slower. What a
/// plan is depends on nothing but problem, options and its rung. Below the lowest rung that has a plan there is none:
/// it is the lowest of all, or found by halving.
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

  int num_rungs() const { return ladder_.num_rungs; }
  /// Bytes; ascending, the last one is the default plan's peak.
  std::int64_t budget_of(int rung) const { return ladder_.budget_of(rung); }
  /// Searched for when it is first asked for, with those below it that may be quicker, as lower bounds say.
  const Rung& rung(int index);
  /// Plans that, away from the operation at whose execution memory is dearest (lower_bound), leave a share of the
  /// rung's budget free, each manner another: a placement of storages without gaps is rarely found where memory is full
  /// all the time, and memory that is full at that one moment is what time depends on. No plan where none was found,
  /// where memory is not short, or where it would be quicker than the rung's own: a lower rung must not be. What it is
  /// depends on nothing but problem, options, rung and manner.
  const Rung& with_slack(int index, int manner);
  static constexpr int kManners = 4;
  /// As if the rungs above and below one were asked for, where there are any.
  void search_beside(int index);
  /// One that has been asked for; null: it has not.
  const Rung* known(int index) const;
  /// Seconds that no plan within this rung's budget is below, but for rounding.
  double least_seconds(int index);
  /// Whether it is for as many rungs, and searched for as `options` say.
  bool is_by(const FrontierOptions& options) const;
  /// Who is told and asked from here on.
  void set_watch(std::function<void(int rungs_done)> progress, std::function<void()> check);
  /// The last rung whose budget is at most so many bytes; -1: none.
  int last_within(std::int64_t bytes) const { return ladder_.last_within(bytes); }

 private:
  const Rung& own(int index);
  int lowest_with_plan();
  void tell() const;
  SearchOptions search_options(std::int64_t budget, std::int64_t effort, const Rung* start) const;
  int dearest_operation(int index);
  Rung searched_with_slack(int index, int manner);

  const Problem& problem_;
  FrontierOptions options_;
  const int asked_rungs_;
  const std::int64_t asked_effort_;
  Ladder ladder_;
  int lowest_ = -1;           // with a plan; -1: not known
  std::map<int, Rung> own_;   // of rungs, what their own searches find
  std::map<int, Rung> best_;  // of these and of those below
  std::map<int, double> bounds_;
  std::map<int, int> dearest_;  // operations, of rungs
  std::map<std::pair<int, int>, Rung> with_slack_;
};

/// 128 for hundreds of operations, fewer for thousands.
int default_rungs(const Problem& problem);
/// The effort that is worth its time for a ladder of so many rungs.
std::int64_t default_frontier_effort(const Problem& problem, int num_rungs);

}  // namespace sectionflow::planning

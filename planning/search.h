#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planning/evaluate.h"
#include "planning/problem.h"

namespace sectionflow::planning {

struct SearchProgress {
  std::int64_t moves = 0;         ///< tried so far
  std::int64_t moves_in_all = 0;  ///< that the search is going to try, unless nothing is left to gain
  double best_seconds = 0;        ///< of the best plan so far; infinite: none yet
  /// With `never_slower`, where what stands above is of the search that is under way: those that are over, and how many
  /// there are at most.
  int searches = 0, most_searches = 1;
};

struct SearchOptions {
  // What is asked.
  std::int64_t budget = 0;   ///< bytes of device memory
  Link link{};               ///< by itself there is none: values are computed again, not copied out
  bool order_fixed = false;  ///< first executions stay in the given order
  /// More budget is never slower, by construction: the plan is the quickest of those that are found for the largest
  /// working set and for each whole percent of the default plan's peak, as far as these are no more than the budget.
  /// Each search has the whole effort; lower bounds leave out most where they are near, and up to 101 are left where
  /// not.
  bool never_slower = false;
  // How long it may take.
  std::int64_t effort = 0;  ///< moves to try, the same on every machine; 0: default_effort. More is never worse
  /// How often walks may look at a value: they come first, at least three at each of some budgets.
  std::int64_t looks = 40'000'000;
  std::uint64_t seed = 1;
  /// The result is never worse than the best of these that fits; where the order is fixed, of those that keep it.
  std::vector<Plan> starts{};
  std::function<void(const SearchProgress&)> progress{};  ///< behind each round of annealing
  /// Many times a second: before each walk, and every few hundred moves. What it throws ends the search.
  std::function<void()> check{};
};

struct SearchResult {
  std::optional<Plan> plan;      ///< none: `reason` says why
  Evaluation evaluation{};       ///< of the plan, by evaluate()
  std::string start;             ///< what it was made from: "given order", "evict cost^1 size^1 reach^0", "start 0"
  int too_large = -1;            ///< the operation whose working set passes the budget: a proof that there is no plan
  std::int64_t working_set = 0;  ///< the most that is needed at once: `largest_working_set`
  std::string reason;            ///< where there is no plan, one sentence: a proof, or that none was found
};

/// The effort that is worth its time: some seconds for hundreds of operations, below a minute for thousands.
std::int64_t default_effort(const Problem& problem, bool has_link = false);

/// The same of one of many searches, as those of a ladder are: less than for a search alone where operations are few.
std::int64_t effort_of_one_in_many(const Problem& problem);

/// Moves of the shortest round of annealing: an effort below tries none.
std::int64_t round_of_moves(const Problem& problem);

/// A plan within the budget, as quick as could be found. The same for the same problem and options, as far as the
/// machine's logarithms are the same to the last bit. More budget is not by construction never slower: where that
/// matters, ask for `never_slower`, or for a whole ladder (planning/frontier.h). Begins with plans that are made in
/// three ways (planning/starts.h), improves orders of executions by annealing (planning/anneal.h), and with a link
/// copies out what is idle for long (planning/offload.h) and anneals executions and copies together. Throws:
/// ArgumentError of check_problem, for a budget or an effort below 0, for `never_slower` beside starts, and for a link
/// with numbers that are negative or not finite.
SearchResult search_plan(const Problem& problem, const SearchOptions& options);

}  // namespace sectionflow::planning

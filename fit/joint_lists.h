#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "fit/list_drafts.h"
#include "fit/list_problem.h"
#include "planning/frontier.h"
#include "planning/ladder.h"

namespace sectionflow {

/// Lists in which what is computed again and what is offloaded are chosen together, where threads carry copies beside
/// the executions: one for each of a ladder of device budgets, from the least that any plan needs to what the list
/// takes with everything once. Each is the plan that search_plan finds with the link, whatever host memory it takes,
/// begun from the plan without copies of that budget, and written with its copies where they have their times
/// (ListProblem::list_of). Disks are for those who offload alone.
///
/// A list depends on problem, profile, effort and its rung, and on no budget: whoever looks at all rungs that a budget
/// reaches finds no less with more.
class JointLists {
 public:
  struct Source {
    const ListProblem& problem;
    ListDrafts& drafts;
    planning::Frontier& alone;  ///< plans of the problem without copies
    bool order_fixed = false;
    std::int64_t effort = 0;        ///< moves for the frontier without copies; 0: what is worth its time
    std::string name{};             ///< of who plans, for notes
    std::function<void()> check{};  ///< many times a second while it searches; what it throws ends that
  };
  /// What it refers to must outlive this. REQUIRES: threads carry copies; a list without offloads and halves.
  explicit JointLists(Source source);

  /// The last rung whose budget is at most so many bytes; -1: none.
  int last_within(std::int64_t bytes) const { return ladder_.last_within(bytes); }
  /// No list of this rung, nor of any below it, is predicted to take less.
  double least_seconds(int rung);
  /// The rung's list, predicted to take what its plan or its simulated draft takes, whichever is more; nullptr: no plan
  /// was found. Searched for when it is first asked for.
  const FittedList* list(int rung);

 private:
  std::int64_t effort_of_a_rung() const;
  std::optional<FittedList> searched(int rung);
  FittedList drafted(const planning::Plan& plan, std::int64_t budget);

  const Source source_;
  planning::Problem problem_;  // in which what is small stays
  planning::Link link_;
  planning::Ladder ladder_;
  std::map<int, double> least_seconds_;
  std::map<int, std::optional<FittedList>> lists_;
};

}  // namespace sectionflow

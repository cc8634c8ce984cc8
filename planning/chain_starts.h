#pragma once

#include <cstdint>
#include <vector>

#include "planning/flat_problem.h"
#include "planning/rotor.h"

namespace sectionflow::planning {

/// A problem seen as a chain: stretches of its operations up to where most is in device memory, each of which hands one
/// value to the next, and for each the operations behind that place which read what it makes. Where it has no such
/// stretches there is nothing to find.
class ChainStarts {
 public:
  explicit ChainStarts(const FlatProblem& problem);

  /// The executions of the best plan of the chain within so many bytes (planning/rotor.h), none where there is none.
  /// Its peak may be above the budget, by what the chain's sums leave out.
  std::vector<int> order(std::int64_t budget) const;

 private:
  void find_middle();
  void find_stages();
  void find_backwards();
  void measure();
  void execute(int operation, std::vector<int>& order, std::vector<std::uint8_t>& executed) const;
  std::vector<int> without_unread(const std::vector<int>& order) const;

  const FlatProblem& problem_;
  int middle_ = -1;                          // the last operation of the forward half
  std::vector<int> stage_ends_;              // the last operation of each stage
  std::vector<std::vector<int>> backwards_;  // of each stage
  std::vector<int> last_forward_reader_;     // of each value; -1: none
  Chain chain_;
};

}  // namespace sectionflow::planning

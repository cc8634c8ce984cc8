#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "schedule/planning_tools.h"

namespace sectionflow {

/// Chains of a list's operations that may run in parts, one part of all of them after the other, so that what they hand
/// on is never there as a whole. Of the list's large values; the budgets have no say.
class PartChains {
 public:
  /// None of a list in which something stands twice, is offloaded, was there before or belongs to a half of a cycle,
  /// and none on a device other than a CPU, whose kernels alone promise the same bits in parts. `draft` is of the list,
  /// by `tools`; all must outlive this.
  PartChains(const InstructionList& list, const Draft& draft, const PlanningTools& tools);

  bool empty() const { return chains_.empty(); }
  /// The least number of parts, from so many on, in which one of the chains may run; 0: none.
  int next_number(int least) const;
  /// The list with each chain in as many parts as it may run in, but no more than so many.
  InstructionList list_in(int parts) const;
  /// The operations of the chains, and what of their outputs is not whole in it.
  std::set<NodeId> nodes() const;
  std::set<Value> values() const;
  /// For people: a line for each chain of that list, with who made it.
  std::vector<std::string> notes(int parts, const std::string& who) const;

 private:
  struct Chain {
    std::vector<int> instructions{};  ///< in the list's order, identities among them
    std::vector<int> operations{};    ///< of these, those that are executed
    std::vector<Value> inside{};      ///< values that are not whole in it
    std::vector<Value> large{};       ///< of these
    int most = 1;
  };
  class Finder;

  int parts_of(const Chain& chain, int parts) const;

  const InstructionList& list_;
  const PlanningTools& tools_;
  std::vector<Chain> chains_;
  std::vector<int> order_;  // of the list's instructions, those of a chain side by side
};

}  // namespace sectionflow

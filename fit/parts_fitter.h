#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "fit/fit_list.h"
#include "fit/part_chains.h"
#include "fit/search_watch.h"
#include "schedule/report.h"

namespace sectionflow {

/// ListFitter of a list and of the same list with its chains in parts (FitRequest::may_split): whichever is quicker.
/// In how many parts does not depend on the budgets, so that a larger one chooses among the same and more. Nothing runs
/// in parts where policies or a list with the most again say what is done, nor where the order is fixed.
class PartsFitter {
 public:
  /// List, tools, and the profile of the request must outlive this.
  PartsFitter(const InstructionList& list, PlanningTools& tools, const FitRequest& request);

  /// As ListFitter's. Where less than the usual effort finds nothing that fits, or nothing as quick as what it finds in
  /// the least memory, it is searched for by the usual one, so that how much is asked for decides how quick a list is,
  /// and not whether there is one: a note says so.
  ///
  /// With f(b) what the short search finds for the budgets b, u(b) what the usual one does, in seconds, and s that of
  /// the short one for the least device memory and all other, this is min(f(b), max(s, u(b))). Neither f nor u rises
  /// with any budget, and s is one number: so this does not rise either, whatever the short search misses, and u(b) has
  /// to be known only where f(b) is more than s.
  FittedList fitted();
  bool fits(const FittedList& list) const { return whole_.fits(list); }
  std::size_t least_device_bytes() const { return minimum_.bytes; }
  bool least_is_exact() const { return minimum_.is_exact; }
  bool least_is_enough() const { return minimum_.is_enough; }
  const FittedList& as_it_is() { return whole_.as_it_is(); }

  /// What any list, in whatever parts it is, takes at least of what the same list takes as a whole.
  struct Least {
    std::set<Value> values{};             ///< that are never whole in some list
    std::map<NodeId, double> seconds{};   ///< of operations that run in parts: all parts of one together
    std::optional<LiveTensor> largest{};  ///< the operation whose operands are the most, in the most parts
  };
  const Least& least_in_parts();

 private:
  struct InParts {
    int parts = 1;
    InstructionList list{};
    FittedList drafted{};
  };

  /// Of a search, as ListFitter tells it.
  struct Minimum {
    std::size_t bytes = 0;
    bool is_exact = false, is_enough = false;
  };

  FittedList searched();
  bool has_searched_little() const;
  FittedList searched_thoroughly(double least_seconds);
  Minimum minimum_of_last() const;
  double seconds_computing_again();
  double seconds_in_least_memory();
  void find_parts();
  void make_parts(int parts);
  ListFitter& fitter_in_parts();

  const InstructionList& given_;
  PlanningTools& tools_;
  const FitRequest request_;
  const SearchWatch watch_{request_};
  const Profile nominal_;
  const Profile& profile_;
  const InstructionList once_;
  ListFitter whole_;
  bool has_looked_ = false, has_tried_parts_ = false;
  std::unique_ptr<PartChains> chains_;
  std::vector<InParts> in_parts_;            // in more and more parts, each of less memory than the one before
  std::unique_ptr<ListFitter> least_parts_;  // of the last of them
  std::optional<Least> least_;
  std::optional<double> seconds_in_least_memory_;
  Minimum minimum_;                        // of what the last list is by
  std::unique_ptr<PartsFitter> thorough_;  // of the usual effort, where less was asked for
};

}  // namespace sectionflow

#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "device/memory_limit.h"
#include "fit/written_list.h"
#include "schedule/planning_tools.h"

namespace sectionflow {

/// What searches of a session have found for its programs, so that none is made twice. By the fingerprint of a program,
/// the budgets, and where variables lie, its own and all: beside other variables a program is planned apart, so that
/// layouts are compared by what is best for each.
class KnownPlans {
 public:
  struct Place {
    TierBudgets budgets;
    std::size_t device_bytes = 0, host_bytes = 0, disk_bytes = 0;  ///< of all variables
    std::vector<Tier> tiers{};                                     ///< of the program's, as it meets them

    static Place of(const WrittenList& written, const PlanningTools& tools);
    friend bool operator==(const Place&, const Place&) = default;
  };
  /// That nothing fits, as it was told.
  struct Refusal {
    ProgramPlan closest;
    ListRemarks remarks;
  };
  struct Found {
    std::optional<ProgramPlan> plan{};
    std::string origin{};              ///< for people: whose plan it is, or why it was searched for
    double seconds = 0;                ///< that a search found it to take by the profile of now; 0: none has
    double nothing_below = 0;          ///< seconds; where there is no plan
    std::optional<Refusal> refusal{};  ///< by the profile of now
  };

  /// nullptr: nothing was looked for there.
  const Found* find(const std::string& fingerprint, const Place& place) const;
  void put(const std::string& fingerprint, const Place& place, Found found);
  /// What was found elsewhere too.
  void forget(const std::string& fingerprint) { found_.erase(fingerprint); }
  /// Of a profile that is none any more: plans for these budgets stay, but what they take is not known, nor what does
  /// not fit, nor what other budgets would do.
  void forget_seconds(const TierBudgets& budgets);

 private:
  struct Entry {
    Place place;
    Found found;
  };
  std::map<std::string, std::vector<Entry>> found_;
};

}  // namespace sectionflow

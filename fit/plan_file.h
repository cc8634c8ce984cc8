#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "base/export.h"

namespace SF_API sectionflow {

class Session;
struct PlanContent;

// Plans of fit_budget in files, so that nobody searches for the same plan twice:
//
//   fit_budget(session);
//   session.plan({loss}, types, {.targets = training});            // or steps: what is planned, is in the plan
//   save_plan(session, "step.plan");
//
//   fit_budget(session, {.plan = load_plan("step.plan")});         // elsewhere: the same plan, without a search
//
// docs/planning.md tells which sessions a plan is for, and what is checked.

/// What fit_budget has decided for each program of a session: what is executed and copied, in which order. Cheap to
/// copy. A plan knows operations and types, and no names, numbers of nodes, weights or addresses.
class FitPlan {
 public:
  /// Of no program.
  FitPlan() = default;
  /// For fit_budget and those that read plans.
  explicit FitPlan(std::shared_ptr<const PlanContent> content) : content_(std::move(content)) {}

  bool empty() const { return content_ == nullptr; }
  int num_programs() const;
  /// The text of its file; empty for an empty plan. The same plan has the same text.
  std::string text() const;
  /// Reads a text that nobody vouches for; an empty one is an empty plan. Throws: DataError (SF-E102), beginning with
  /// `where`, for one that is damaged, of another version, or no plan.
  static FitPlan from_text(const std::string& text, const std::string& where);

  /// nullptr for an empty plan.
  const PlanContent* content() const { return content_.get(); }

 private:
  std::shared_ptr<const PlanContent> content_;
};

/// What fit_budget has planned for the session so far, and what it was given. Programs that nothing fits are left out,
/// and so is what was given for another model, or was refused when a program was to go by it.
/// Throws: ArgumentError where fit_budget has not been called for it.
FitPlan plan_of(const Session& session, Where where = Where::here());

/// Writes plan_of as a file, which appears whole or not at all. Throws: as plan_of, ArgumentError where nothing has
/// been planned yet, and DataError where it cannot be written.
void save_plan(const Session& session, const std::string& path, Where where = Where::here());

/// Throws: DataError for a file that cannot be read, with its path; as FitPlan::from_text. Whether it is a plan for a
/// session shows when that session plans.
FitPlan load_plan(const std::string& path, Where where = Where::here());

}  // namespace sectionflow

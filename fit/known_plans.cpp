// What is known of a session's plans: by earlier searches, and for its checkpoints.

#include <utility>

#include "fit/program_fitter.h"

namespace sectionflow {

KeptTexts ProgramFitter::kept() const {
  KeptTexts texts;
  const FitPlan known = plan();
  if (known.num_programs() > 0) texts[kKeptPlan] = known.text();
  if (profile_ != Profile::nominal()) texts[kKeptProfile] = profile_.json();
  return texts;
}

/// What was planned here beside so many bytes of variables on disk, or else, where nothing was, what was given; nullptr
/// where there is nothing.
const ProgramPlan* ProgramFitter::known_beside(const std::string& fingerprint, std::size_t disk_bytes) const {
  const auto here = planned_beside_.find(fingerprint);
  if (here == planned_beside_.end()) return planned_.find(fingerprint);
  const auto plan = here->second.find(disk_bytes);
  return plan == here->second.end() || !plan->second.plan ? nullptr : &*plan->second.plan;
}

/// What a search has found that plan to take, by the profile of now; 0: none has.
double ProgramFitter::seconds_beside(const std::string& fingerprint, std::size_t disk_bytes) const {
  const auto here = planned_beside_.find(fingerprint);
  if (here == planned_beside_.end()) return 0;
  const auto beside = here->second.find(disk_bytes);
  return beside == here->second.end() ? 0 : beside->second.seconds;
}

/// Seconds by the one before say nothing of what plans take by this one.
void ProgramFitter::set_profile(Profile profile) {
  profile_ = std::move(profile);
  for (auto& [fingerprint, here] : planned_beside_) {
    for (auto& [disk_bytes, beside] : here) beside.seconds = beside.nothing_below = 0;
  }
}

/// Whether a search beside these variables has found nothing that is as quick as is wanted.
bool ProgramFitter::is_known_useless(const std::string& fingerprint, const PlanningTools& tools) const {
  const auto here = planned_beside_.find(fingerprint);
  if (here == planned_beside_.end()) return false;
  const auto beside = here->second.find(tools.variables().disk_end_bytes);
  return beside != here->second.end() && !beside->second.plan && tools.only_below <= beside->second.nothing_below;
}

}  // namespace sectionflow

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

const ProgramFitter::PlannedBeside* ProgramFitter::found_beside(const std::string& fingerprint,
                                                                std::size_t disk_bytes) const {
  const auto here = planned_beside_.find(fingerprint);
  if (here == planned_beside_.end()) return nullptr;
  const auto found = here->second.find(disk_bytes);
  return found == here->second.end() ? nullptr : &found->second;
}

/// What was planned here beside so many bytes of variables on disk, or else, where nothing was, what was given; nullptr
/// where there is nothing.
const ProgramPlan* ProgramFitter::known_beside(const std::string& fingerprint, std::size_t disk_bytes) const {
  if (!planned_beside_.contains(fingerprint)) return planned_.find(fingerprint);
  const PlannedBeside* const found = found_beside(fingerprint, disk_bytes);
  return found == nullptr || !found->plan ? nullptr : &*found->plan;
}

/// What a search has found that plan to take, by the profile of now; 0: none has.
double ProgramFitter::seconds_beside(const std::string& fingerprint, std::size_t disk_bytes) const {
  const PlannedBeside* const found = found_beside(fingerprint, disk_bytes);
  return found == nullptr ? 0 : found->seconds;
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
  const PlannedBeside* const found = found_beside(fingerprint, tools.variables().disk_end_bytes);
  return found != nullptr && !found->plan && tools.only_below <= found->nothing_below;
}

}  // namespace sectionflow

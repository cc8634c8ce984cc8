#pragma once

#include "base/export.h"
#include "runtime/session.h"
#include "runtime/trace.h"
#include "swap/profile.h"

namespace SF_API sectionflow {

/// The trace of an execution that has not happened: the program that the session planned or ran last, with the times
/// that `profile` expects of each step, lane by lane. Bytes are those of the plan, and so exact; times are only as good
/// as the profile (measure_profile). Pictures are drawn of it as of a measured trace, and nothing is run.
/// Throws: ArgumentError for a session that has planned and run nothing, and for numbers that no profile can have.
Trace planned_trace(const Session& session, const Profile& profile = Profile::nominal(), Where where = Where::here());

}  // namespace sectionflow

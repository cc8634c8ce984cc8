#pragma once

#include <string>
#include <vector>

#include "base/export.h"
#include "runtime/session.h"
#include "swap/profile.h"

namespace SF_API sectionflow {

/// Measures the machine under a session: every kernel of the program that session.run executes for these fetches and
/// targets, the median of `repeats` launches; the links by whoever carries the session's copies, without their
/// throttle; the disk where the session has one. Works on scratch bytes of the planned region and on small numbers: no
/// variable and no counter changes. On a GPU a kernel's time is that between two marks of its compute queue. Copies go
/// to and from up to 128 MiB of host memory beside the session's. Kernels for whose operands there is no room keep the
/// estimate. Throws: ArgumentError before initialize(), while a forward half is pending, and for a program that uses
/// variables made after initialize(); DeviceError of the disk.
Profile measure_profile(Session& session, const std::vector<Value>& fetches, const FeedTypes& feeds,
                        const RunOptions& options = {}, int repeats = 5);

/// The profile of a file, where the kernels that it does not know of this program are measured and written to it as
/// well; all is measured where there is no file yet. A profile of another model or batch knows next to none: its other
/// kernels would be estimated, by the speeds of no machine in particular. Throws: as measure_profile, Profile::load and
/// Profile::save.
Profile load_or_measure_profile(const std::string& path, Session& session, const std::vector<Value>& fetches,
                                const FeedTypes& feeds, const RunOptions& options = {}, int repeats = 5);

}  // namespace sectionflow

#pragma once

#include "runtime/session.h"
#include "train/checkpoint_manifest.h"
#include "train/checkpoints.h"

namespace sectionflow {

/// What a checkpoint tells of a session and of what its saver says, but for its file of variables. The profile is the
/// saver's or, where there is none, the one that the session keeps; what else the session keeps and comes to more than
/// kMostKeptBytes is left out, with a warning.
CheckpointManifest manifest_of(const Session& session, const SaveOptions& options);

}  // namespace sectionflow

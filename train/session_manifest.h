#pragma once

#include <string>

#include "runtime/session.h"
#include "train/checkpoint_manifest.h"
#include "train/checkpoints.h"

namespace sectionflow {

/// What a checkpoint tells of a session and of what its saver says, but for its file of variables. The profile is the
/// saver's or, where there is none, the one that the session keeps; what else the session keeps and comes to more than
/// kMostKeptBytes is left out, with a warning.
CheckpointManifest manifest_of(const Session& session, const SaveOptions& options);

/// The manifest's note of a session's device, threads among it: "cpu (2 threads), oneDNN 2.6.3, avx512". Of two
/// trainings with other notes the bits may differ.
std::string noted_device(const Session& session);

}  // namespace sectionflow

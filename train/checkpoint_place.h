#pragma once

#include <filesystem>
#include <string>

namespace sectionflow {

// Whether a folder is one that checkpoints lie in, or are to: told by names alone, since what is amiss shows in them.
// What cannot be looked at is taken to be right, and told by what is done with the folder next.

/// Refuses what is no folder for checkpoints: a checkpoint itself, whose neighbours would be taken for unfinished and
/// which goes, with what lies in it, when it is the oldest; and a folder of records, or of pictures in a folder for
/// each class (two at least, and none without pictures), that has neither a checkpoint nor a file `latest` that names
/// one. Folders that are not there yet are fine.
/// Throws: ArgumentError naming the folder to take.
void check_takes_checkpoints(const std::filesystem::path& folder);

/// Whether it is a checkpoint, be it a damaged one.
bool is_checkpoint(const std::filesystem::path& folder);

/// The first folder in this one, by name, that has checkpoints; empty where none has.
std::string folder_of_checkpoints_in(const std::filesystem::path& folder);

}  // namespace sectionflow

#pragma once

#include <vector>

#include "base/export.h"
#include "schedule/schedule.h"

namespace SF_API sectionflow {

/// One stay of a value away from the device, in terms of the lines of a script. Places are numbers of lines: "before
/// line p", from 0 to the number of lines.
struct Rest {
  Value value;
  int out = 0;           ///< copied to the host before this line
  int in = 0;            ///< copied back before this line; a reader stands there, or later
  int hold = -1;         ///< the copy out is expected to be over before this line; -1: says nothing
  bool on_disk = false;  ///< goes on to the disk, and comes back by way of the host
  int disk_out = 0;      ///< on_disk: written before this line
  int disk_in = 0;       ///< on_disk: read back before this line
};

/// The script with the lines that make the values rest. Nobody may read the value between `out` and `in`.
/// Rests are numbered in their order, from the first number that the script does not use.
/// Throws: InternalError unless out <= disk_out <= disk_in <= in and out <= hold <= in, within the script.
Script insert_rests(const Script& script, const std::vector<Rest>& rests);

}  // namespace sectionflow

#pragma once

#include "schedule/schedule.h"

namespace sectionflow {

/// Whether a lane is a queue of a device that has some.
inline bool is_queue(Lane lane) {
  return lane == Lane::compute || lane == Lane::copy_out || lane == Lane::copy_in;
}

}  // namespace sectionflow

#include "schedule/step_kind.h"

#include "base/error.h"

namespace sectionflow {

std::string Pass::text() const {
  const std::string number = section == kNoGroup ? std::string() : text_of(" ", section);
  switch (kind) {
    case Kind::forward:
      return "forward" + number;
    case Kind::recompute:
      return "forward" + number + " (again)";
    case Kind::backward:
      return "backward" + number;
    case Kind::whole:
      return "whole graph";
  }
  throw InternalError("Pass::text: unknown kind");
}

const char* lane_name(Lane lane) {
  switch (lane) {
    case Lane::compute:
      return "compute";
    case Lane::copy_out:
      return "copy out";
    case Lane::copy_in:
      return "copy in";
    case Lane::disk_out:
      return "disk out";
    case Lane::disk_in:
      return "disk in";
    case Lane::communicate:
      return "communicate";
  }
  throw InternalError("lane_name: unknown lane");
}

bool is_transfer(StepKind kind) {
  return kind == StepKind::copy_out || kind == StepKind::disk_write || kind == StepKind::disk_read ||
         kind == StepKind::copy_in;
}

}  // namespace sectionflow

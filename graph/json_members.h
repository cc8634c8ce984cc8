#pragma once

#include <nlohmann/json.hpp>

namespace sectionflow {

/// The object that options are written to; headers for users know it by name alone.
struct JsonMembers {
  nlohmann::ordered_json members = nlohmann::ordered_json::object();
};

}  // namespace sectionflow

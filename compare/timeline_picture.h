#pragma once

#include <cstddef>
#include <string>

#include "compare/memory_timeline.h"

namespace sectionflow {

/// What all pictures of one report have in common, so that they can be compared by eye.
struct PictureScale {
  std::size_t device_bytes = 0;     ///< at the top of device memory
  std::size_t offloaded_bytes = 0;  ///< at the top of host memory and disk; 0: nothing is ever there
  std::size_t device_budget = 0;    ///< 0: unlimited
};

/// The colour of a section's values: "#0072b2". Sections further on take the colours again, lighter.
std::string section_colour(GroupId section);
inline constexpr const char* kVariablesColour = "#9aa0a6";
inline constexpr const char* kBudgetColour = "#c00000";
inline constexpr const char* kHostColour = "#5b7f95";
inline constexpr const char* kDiskColour = "#8a6d3b";

/// Where a number of bytes lies in the picture of device memory, from the top of the picture.
double device_height(const PictureScale& scale, std::size_t bytes);

/// One cycle as SVG: device memory over time, stacked by layers with the variables below, and the budget across it;
/// what is offloaded to host memory and to disk; below, when the compute lane worked and when which bytes were carried,
/// with an arc from each of the largest copies out to the copy in of the same offload.
std::string timeline_picture(const MemoryTimeline& timeline, const PictureScale& scale, const std::string& label);

}  // namespace sectionflow

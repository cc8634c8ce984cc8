#pragma once

#include <cstddef>

namespace sectionflow::fuzz {

// What the process has of malloc and operator new: its own calls and those of libraries. A program that links
// heap_peak.cpp has the functions of the malloc family replaced, or under a sanitizer watched.

/// From here on the peak is counted anew.
void begin_heap_peak();
/// The most bytes at once since then, beyond those that were there.
std::size_t heap_peak_bytes();

}  // namespace sectionflow::fuzz

#pragma once

#include <cstddef>

#include "tests/support/replaced_new.h"

namespace sectionflow::testing_support {

/// A program that links replaced_malloc.cpp has the functions of the malloc family replaced, for itself and for its
/// shared libraries, and says here what is done with each call: how many bytes `caller` wants. Nothing is replaced
/// where SF_NO_ALLOCATION_HOOK is defined.
void observe_malloc(std::size_t num_bytes, const void* caller) noexcept;

}  // namespace sectionflow::testing_support

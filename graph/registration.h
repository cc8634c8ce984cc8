#pragma once

#include "graph/op_registry.h"

namespace sectionflow {

// What register_family needs of this folder; it alone checks what it hands over.

/// Moves the definitions of a family into op_registry().
void take_ops(OpRegistry& family) noexcept;

/// Whether a session has been made: from then on no family is registered.
bool registration_has_ended() noexcept;
/// For sessions, whose programs rely on the registries to stay.
void end_registration() noexcept;

}  // namespace sectionflow

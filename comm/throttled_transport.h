#pragma once

#include <chrono>
#include <memory>

#include "comm/transport.h"

namespace sectionflow {

/// A transport by which a rank sends as if to all others over one link of `bytes_per_second` (0: no limit): messages go
/// one behind the other, and each comes `latency` later than that. The sender has them until then.
std::unique_ptr<Transport> throttled(std::unique_ptr<Transport> transport, double bytes_per_second,
                                     std::chrono::microseconds latency);

}  // namespace sectionflow

#pragma once

#include <string>

#include "base/export.h"

namespace SF_API sectionflow {

/// While one of these lives, SIGINT and SIGTERM are noted instead of ending the process, for who asks received()
/// between two steps. A second signal ends the process at once, as it would without this; one within a twentieth of a
/// second after the first is the same: `timeout` and shells send a signal to a process and to its group. A signal that
/// the process ignores stays ignored. What was installed before is installed again when the last of these ends;
/// Trainer::fit makes one where FitOptions::handle_signals says so, and nobody else does. Threads: any; the signals are
/// the process's.
class StopSignals {
 public:
  /// Throws: DeviceError where the system refuses.
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The first signal that has come since the first of those that live was made; 0: none.
  int received() const;
};

/// "SIGINT", "SIGTERM", or "signal 10".
std::string name_of_signal(int signal);

}  // namespace sectionflow

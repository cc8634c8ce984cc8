#pragma once

#include <functional>
#include <string>

#include "fit/fit_budget.h"
#include "train/stop_signals.h"

namespace sectionflow {

/// While one of these lives SIGINT and SIGTERM stop searches for plans, instead of ending the process: one for all of a
/// command that searches, so that no signal comes between two questions. One at a time.
class StopsPlanning {
 public:
  StopsPlanning();
  ~StopsPlanning();
  StopsPlanning(const StopsPlanning&) = delete;
  StopsPlanning& operator=(const StopsPlanning&) = delete;

 private:
  const StopSignals signals_;
};

/// For FitBudgetOptions::stop: whether SIGINT or SIGTERM has come since the StopsPlanning that lives was made. Without
/// one a signal ends the process as ever.
std::function<bool()> stops_planning();

/// Tells on the error stream what was stopped. The exit status, as of a process that the signal has ended: 130 behind
/// SIGINT, 143 behind SIGTERM.
int status_of_stopped(const StoppedError& error);
/// The same, where it was something of less use than what there is already: `what` is told instead.
int status_of_stopped(const std::string& what);

}  // namespace sectionflow

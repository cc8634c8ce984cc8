#pragma once

#include <functional>

#include "fit/fit_budget.h"

namespace sectionflow {

/// For FitBudgetOptions::stop: whether SIGINT or SIGTERM has come since a StopSignals was made that lives. Without one
/// a signal ends the process as ever.
std::function<bool()> stops_planning();

/// Tells on the error stream what was stopped. The exit status, as of a process that the signal has ended: 130 behind
/// SIGINT, 143 behind SIGTERM.
int status_of_stopped(const StoppedError& error);

}  // namespace sectionflow

#include "tools/stopped_planning.h"

#include <atomic>
#include <iostream>

#include "tools/command.h"
#include "train/stop_signals.h"

namespace sectionflow {
namespace {

std::atomic<int> stopping_signal{0};  // the last that has stopped a search

}  // namespace

std::function<bool()> stops_planning() {
  return [] {
    const int signal = StopSignals().received();
    if (signal != 0) stopping_signal = signal;
    return signal != 0;
  };
}

int status_of_stopped(const StoppedError& error) {
  constexpr int kOfSignals = 128;
  std::cerr << shell_text(error) << "\n";
  return kOfSignals + stopping_signal;
}

}  // namespace sectionflow

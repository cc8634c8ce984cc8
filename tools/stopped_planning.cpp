#include "tools/stopped_planning.h"

#include <atomic>
#include <iostream>

#include "tools/command.h"

namespace sectionflow {
namespace {

std::atomic<const StopSignals*> watching{nullptr};
std::atomic<int> stopping_signal{0};  // the last that has stopped a search

}  // namespace

StopsPlanning::StopsPlanning() {
  watching = &signals_;
}

StopsPlanning::~StopsPlanning() {
  watching = nullptr;
}

std::function<bool()> stops_planning() {
  return [] {
    const StopSignals* const signals = watching;
    const int signal = signals != nullptr ? signals->received() : 0;
    if (signal != 0) stopping_signal = signal;
    return signal != 0;
  };
}

int status_of_stopped(const StoppedError& error) {
  return status_of_stopped(shell_text(error));
}

int status_of_stopped(const std::string& what) {
  constexpr int kOfSignals = 128;
  std::cerr << what << "\n";
  return kOfSignals + stopping_signal;
}

}  // namespace sectionflow

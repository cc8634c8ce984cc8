#include "base/held_signals.h"

#include <array>

namespace sectionflow {
namespace {

/// Those that a fault of a thread's own raises end the process where they are blocked, without its handler.
constexpr std::array<int, 7> kFaults = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};

sigset_t all_but_faults() {
  sigset_t signals;
  sigfillset(&signals);
  for (const int fault : kFaults) sigdelset(&signals, fault);
  return signals;
}

void hold(sigset_t* before) {
  static const sigset_t held = all_but_faults();
  pthread_sigmask(SIG_BLOCK, &held, before);
}

}  // namespace

HeldSignals::HeldSignals() {
  hold(&before_);
}

void hold_signals_of_worker() {
  thread_local bool are_held = false;
  if (are_held) return;
  are_held = true;
  hold(nullptr);
}

}  // namespace sectionflow

#pragma once

#include <signal.h>

namespace sectionflow {

// oneDNN's products of f32 without brgemm (gemm:jit, up to 3.11.1) point the stack pointer into the heap while they
// multiply: the system lays a handler's frame below it, over what lies there (https://github.com/uxlfoundation/oneDNN
// issue 4845). So no thread that executes oneDNN may take a signal meanwhile, whoever's the handler is; and threads of ours
// take none at all, or else the system would give them what the program's thread holds.

/// While it lives, signals to the calling thread wait, but for those of its own faults. Begins and ends on one thread.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t before_;
};

/// What `begin` gives, called while signals are held: threads that it begins hold them for good.
template <class Begin>
auto with_held_signals(const Begin& begin) {
  const HeldSignals held;
  return begin();
}

/// Has the calling thread, a worker of OpenMP's, take no such signal any more: the program's handlers run on the
/// program's threads. Threads that it begins inherit that. Costs nothing the second time.
void hold_signals_of_worker();

}  // namespace sectionflow

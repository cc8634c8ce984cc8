#pragma once

#include <optional>

namespace sectionflow {

/// While it lives, the calling thread computes with a team of so many, whose threads wait in the way that suits the
/// machine: they spin as long as the cores are theirs, so that the next parallel region begins at once, and sleep as
/// soon as others want the cores, which a spinning thread would keep from whoever it waits for. A thread of the process
/// looks 20 times a second while anything is computed, and holds an IdleTeam while cores are wanted. A team that has
/// all cores of the process then keeps each thread on one of its own besides: the system would put two on one, to have
/// another core for what else runs.
///
/// Does nothing where OMP_WAIT_POLICY or GOMP_SPINCOUNT says how threads are to wait, for a team of one thread, and
/// where OpenMP is not libgomp. Changes no bit.
class TeamWaiting {
 public:
  explicit TeamWaiting(int threads);
  ~TeamWaiting();
  TeamWaiting(const TeamWaiting&) = delete;
  TeamWaiting& operator=(const TeamWaiting&) = delete;

  /// For each thread of the team, number `index`, before it computes: stays on a core of its own, or gives that up.
  void place_thread(int index) const;

 private:
  bool is_watched_;
  int threads_;
};

/// For a thread that is begun by one that computes, whose core it would share: may run on all of the process's again.
void leave_core_of_team();

/// Whether others want the cores, told by how long threads that could have run did not. It is high at once, and no more
/// when it has been low for half a second.
class CorePressure {
 public:
  /// Of `elapsed` seconds, `waited` is what all threads together waited.
  void add(double waited, double elapsed);
  bool is_high() const { return is_high_; }

 private:
  bool is_high_ = false;
  double quiet_seconds_ = 0;
};

/// How long the threads of the process that are there have waited for a core, in seconds since each began; nothing
/// where the system does not tell (/proc/self/task/*/schedstat).
std::optional<double> seconds_waited_for_cores();

/// Whether threads that wait sleep at once by now.
bool waiting_threads_sleep();

}  // namespace sectionflow

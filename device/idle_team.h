#pragma once

#include <pthread.h>
#include <semaphore.h>

namespace sectionflow {

/// A team of OpenMP that nobody gives work to. libgomp's threads that wait for a parallel region spin for milliseconds;
/// but where OpenMP has more threads than the process has cores they give up after some microseconds and sleep (its
/// manual, GOMP_SPINCOUNT). While this team lives it has. Changes no bit.
class IdleTeam {
 public:
  /// As many threads as a team of `threads` leaves cores, and one more. Where the first cannot be had there are none;
  /// where the others cannot, libgomp ends the process, as it does for any team.
  explicit IdleTeam(int threads);
  /// Gives them back to the system.
  ~IdleTeam();
  IdleTeam(const IdleTeam&) = delete;
  IdleTeam& operator=(const IdleTeam&) = delete;

 private:
  static void* idle(void* team);

  int size_ = 0;  // with the thread that begins it
  bool exists_ = false;
  pthread_t thread_{};
  sem_t begun_, end_;
};

}  // namespace sectionflow

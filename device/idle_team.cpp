#include "device/idle_team.h"

#include <omp.h>

#include <cerrno>

#include "base/held_signals.h"

namespace sectionflow {
namespace {

void wait_for(sem_t& semaphore) {
  while (sem_wait(&semaphore) != 0 && errno == EINTR) continue;
}

}  // namespace

/// Begins a region, so that OpenMP has its threads, and sleeps until the end: a thread that ends gives its team back.
void* IdleTeam::idle(void* team) {
  auto& self = *static_cast<IdleTeam*>(team);
  omp_set_dynamic(0);
#pragma omp parallel num_threads(self.size_)
  asm volatile("" ::: "memory");  // a region of nothing would be left out
  sem_post(&self.begun_);
  wait_for(self.end_);
  return nullptr;
}

IdleTeam::IdleTeam(int threads) {
  sem_init(&begun_, 0, 0);
  sem_init(&end_, 0, 0);
  // OpenMP counts a team's threads once, the one that begins it included; of other teams those that were begun for
  // them.
  const int more = omp_get_num_procs() - threads + 1;
  if (more <= 0) return;
  size_ = more + 1;
  exists_ = with_held_signals([&] { return pthread_create(&thread_, nullptr, idle, this); }) == 0;
  if (exists_) wait_for(begun_);
}

IdleTeam::~IdleTeam() {
  if (exists_) {
    sem_post(&end_);
    pthread_join(thread_, nullptr);
  }
  sem_destroy(&begun_);
  sem_destroy(&end_);
}

}  // namespace sectionflow

#include "device/idle_team.h"

#include <omp.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>

#include "base/held_signals.h"

namespace sectionflow {
namespace {

#if defined(__clang__)
constexpr bool kIsLibgomp = false;
#else
constexpr bool kIsLibgomp = true;
#endif

bool is_waiting_settled() {
  return std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr;
}

/// Begins a region, so that OpenMP has its threads, and sleeps: a thread that ends gives its team back.
[[noreturn]] void* idle(void* team) {
  const int size = static_cast<int>(reinterpret_cast<std::intptr_t>(team));
  omp_set_dynamic(0);
#pragma omp parallel num_threads(size)
  asm volatile("" ::: "memory");  // a region of nothing would be left out
  while (true) pause();
}

/// So many besides the one that begins them; none where that one cannot be had.
void start_idle_threads(int more) {
  pthread_t thread{};
  const auto begin = [&] {
    return pthread_create(&thread, nullptr, idle, reinterpret_cast<void*>(static_cast<std::intptr_t>(more) + 1));
  };
  if (with_held_signals(begin) == 0) pthread_detach(thread);
}

}  // namespace

void keep_idle_team(int threads) {
  static const bool is_settled = is_waiting_settled();
  static std::atomic<int> idle_threads{0};
  static std::mutex mutex;
  if (!kIsLibgomp || is_settled || threads < 2) return;
  // OpenMP counts a team's threads once, the one that begins it included; of other teams those that were begun for
  // them.
  const int wanted = omp_get_num_procs() - threads + 1;
  if (idle_threads.load(std::memory_order_relaxed) >= wanted) return;
  const std::lock_guard lock(mutex);
  const int missing = wanted - idle_threads.load(std::memory_order_relaxed);
  if (missing <= 0) return;
  start_idle_threads(missing);
  idle_threads = wanted;  // where there are none to be had, nobody asks again
}

}  // namespace sectionflow

#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "base/held_signals.h"
#include "device/team_waiting.h"

namespace sectionflow {

/// Calls `body(begin, end)` on contiguous parts of [0, count) that together cover it, on the compute team. Parts are
/// multiples of `grain` (but for the last). Which thread gets which part must not matter to the result: a body writes
/// only what its own indices name. Runs on the calling thread alone where there is too little work.
template <class Body>
void parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
  const std::int64_t num_grains = (count + grain - 1) / grain;
  const int team = static_cast<int>(std::min<std::int64_t>(omp_get_max_threads(), num_grains));
  if (team <= 1) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(team)
  {
    const std::int64_t thread = omp_get_thread_num();
    if (thread > 0) hold_signals_of_worker();  // OpenMP ends and begins workers with the size of teams
    const std::int64_t size = omp_get_num_threads();
    const std::int64_t begin = num_grains * thread / size * grain;
    const std::int64_t end = std::min(count, num_grains * (thread + 1) / size * grain);
    if (begin < end) body(begin, end);
  }
}

/// Elements below which a loop is not worth a second thread.
inline constexpr std::int64_t kParallelGrain = 16384;

/// Has the calling thread flush denormal numbers to zero from here on.
void flush_denormals();

/// While it lives, parallel regions that the calling thread begins get a team of exactly so many threads, and each of
/// these flushes denormal numbers to zero. Kernels are made for one size of the team; some of oneDNN's wait for all of
/// its threads, for ever where OpenMP gives fewer. OpenMP's settings are a thread's own: this one's are given back in
/// the end. Begins and ends on one thread.
class ComputeTeam {
 public:
  /// Throws: DeviceError where OpenMP cannot give that team: to more than one thread inside of a parallel region, or
  /// beyond its limit of threads. Nothing has changed then.
  explicit ComputeTeam(int threads);
  ComputeTeam(const ComputeTeam&) = delete;
  ComputeTeam& operator=(const ComputeTeam&) = delete;

 private:
  /// The calling thread's settings as they were.
  struct Settings {
    Settings();
    ~Settings();
    Settings(const Settings&) = delete;
    Settings& operator=(const Settings&) = delete;

    int num_threads, dynamic, max_active_levels;
    unsigned control;  // of SSE arithmetic
  };

  TeamWaiting waiting_;
  Settings previous_;
};

}  // namespace sectionflow

#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

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
    const std::int64_t size = omp_get_num_threads();
    const std::int64_t begin = num_grains * thread / size * grain;
    const std::int64_t end = std::min(count, num_grains * (thread + 1) / size * grain);
    if (begin < end) body(begin, end);
  }
}

/// Elements below which a loop is not worth a second thread.
inline constexpr std::int64_t kParallelGrain = 16384;

}  // namespace sectionflow

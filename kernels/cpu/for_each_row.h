#pragma once

#include <algorithm>
#include <cstdint>

#include "device/parallel.h"

namespace sectionflow {

/// Calls `row(n)` for every n in [0, num_rows), on the compute team. A row of `length` elements takes a few
/// exponentials an element: that is what decides how many rows are worth a second thread.
template <class Row>
void for_each_row(std::int64_t num_rows, std::int64_t length, const Row& row) {
  constexpr std::int64_t kElementsAThread = 4096;
  const std::int64_t grain = std::max<std::int64_t>(1, kElementsAThread / std::max<std::int64_t>(1, length));
  parallel_for(num_rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) row(n);
  });
}

}  // namespace sectionflow

#pragma once

#include "data/dataset.h"

namespace sectionflow {

/// Prefetch of as many batches as there are threads, where there are several: pipelines of a test with and without
/// them.
inline Dataset prefetched(const Dataset& dataset, int threads) {
  return threads > 1 ? dataset.prefetch({.batches = threads}) : dataset;
}

}  // namespace sectionflow

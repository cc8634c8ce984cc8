#pragma once

#include <cstdint>
#include <memory>

#include "examples/models/zoo.h"
#include "train/batch_source.h"

namespace sectionflow {

/// Batches that a model makes by itself.
struct SyntheticData {
  std::int64_t batch = 1;    ///< examples in a batch
  std::uint64_t seed = 0;    ///< and the batch's number decide what is in it
  std::int64_t batches = 1;  ///< in a pass
};

/// As a source. Its positions tell what the batches are, and are refused by a source of others: restore() throws
/// ArgumentError (SF-E403), and DataError (SF-E609) for what is no position.
std::unique_ptr<BatchSource> synthetic_batches(const ZooModel& model, const SyntheticData& data);

}  // namespace sectionflow

#pragma once

#include <cstdint>

#include "base/export.h"
#include "data/labeled_images.h"

namespace SF_API sectionflow {

/// The sizes of a data set that synthetic_mnist makes.
struct SyntheticOptions {
  std::int64_t train_size = 10000;
  std::int64_t test_size = 2000;
  std::uint64_t seed = 1;
  std::int64_t height = 28;
  std::int64_t width = 28;
  int num_classes = 10;
};

/// Images of MNIST's form that a small network learns, for runs without files. Each class is a smooth random pattern;
/// a sample is its class's pattern, shifted by up to three pixels each way, at a contrast of its own, under noise.
/// Classes are equally frequent and cycle: image i is of class i mod num_classes. Integer arithmetic on addressed
/// random words: the same bytes on every machine, and a sample does not depend on how many others there are.
/// Throws: ArgumentError for sizes below 1.
TrainTest synthetic_mnist(const SyntheticOptions& options = {});

}  // namespace sectionflow

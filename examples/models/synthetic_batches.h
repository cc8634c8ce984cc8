#pragma once

#include <cstdint>
#include <vector>

#include "data/batch_loader.h"

namespace sectionflow {

/// Which batch: the same arguments give the same bytes.
struct BatchAddress {
  std::int64_t batch = 32;  ///< examples in it
  std::uint64_t seed = 0;
  std::int64_t step = 0;
};

/// Images that a network can learn to tell apart, for measurements and tests without files: each class is a wave of its
/// own direction, phase and colour, under noise. `image` is {..., height, width, channels}; labels are i32 [N].
Batch synthetic_images(const std::vector<std::int64_t>& image, std::int64_t classes, const BatchAddress& address);

/// Images whose class changes from pixel to pixel: a wave cut into `classes` bands, under noise. Labels are i32
/// [N, ..., height, width].
Batch synthetic_pixels(const std::vector<std::int64_t>& image, std::int64_t classes, const BatchAddress& address);

/// Texts of numbers in [0, vocabulary), each of which mostly follows from the one before: `images` holds the tokens,
/// i32 [N, length], and `labels` those one further on.
Batch synthetic_tokens(std::int64_t length, std::int64_t vocabulary, const BatchAddress& address);

/// Such texts with gaps to be filled in: about one token in seven, and the first of each text at least, is replaced by
/// the mask, the last of the vocabulary. `labels` hold what stood there, and -100 elsewhere.
Batch synthetic_masked_tokens(std::int64_t length, std::int64_t vocabulary, const BatchAddress& address);

}  // namespace sectionflow

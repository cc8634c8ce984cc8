#pragma once

#include <cstddef>
#include <vector>

#include "autodiff/gradients.h"
#include "base/export.h"

namespace SF_API sectionflow {

/// A gradient of at least so many bytes is summed over ranks by itself: what a call takes is little beside its bytes.
inline constexpr std::size_t kLargeGradient = std::size_t{128} << 10;
/// The most bytes of a bucket, unless it is of one gradient.
inline constexpr std::size_t kBucketBytes = std::size_t{256} << 10;

/// Which gradients are summed over ranks in one exchange, by their numbers: a large one alone, small ones of one
/// section together, so that no section waits for another. Buckets, and what is in them, stand in the order in which
/// the backward pass makes their gradients, a bucket where its last one does. Which of them are together is no matter
/// of bits, since sums are taken element by element.
std::vector<std::vector<std::size_t>> gradient_buckets(const std::vector<GradientAndVariable>& gradients);

}  // namespace sectionflow

#pragma once

#include <map>
#include <string>

#include "base/export.h"

namespace SF_API sectionflow {

/// Index of a section among its manager's; kOutside stands outside of all.
using SectionIndex = int;
inline constexpr SectionIndex kOutside = -1;
/// In the place of a backward run: the forward pass.
inline constexpr SectionIndex kForwardPass = -1;

/// Where a tensor that crosses section borders is kept between the forward pass and the backward run that reads it.
enum class BorderPolicy {
  automatic,  ///< on the device if the budget leaves room, else in host memory, else on disk
  keep,       ///< on the device
  host,       ///< in host memory, whatever the budget
  disk,       ///< on disk, whatever the budget; needs SessionOptions::disk
};

/// What becomes of the tensors inside a section, of which its backward run reads many.
enum class InteriorPolicy {
  recompute,  ///< they are dropped and computed again: least memory
  keep,       ///< they stay on the device: least time
  swap,       ///< they are offloaded to host memory until the backward run reads them
  automatic,  ///< as many stay as the budget leaves room for; the others are offloaded or computed again, whichever
              ///< takes less
};

/// Where the tensors of one section are kept. The results are the same bits whatever is chosen.
struct SectionOptions {
  /// Of what the section makes for others, and what these read from it. A section with `keep` whose interior is
  /// recomputed or kept copies nothing; otherwise what does not fit may be offloaded, the interior included.
  BorderPolicy borders = BorderPolicy::automatic;
  /// By the names of tensors that the section makes or reads; wins over `borders`. Naming a tensor of the interior
  /// keeps it, there or elsewhere, instead of computing it again. Where sections differ, the one that makes the tensor
  /// wins.
  std::map<std::string, BorderPolicy> tensors{};
  InteriorPolicy interior = InteriorPolicy::recompute;
  /// How many runs ahead of the section's backward run what it reads may come back; 0: just before its reader. More
  /// hides slow copies behind compute and takes more device memory.
  int prefetch = 1;
};

}  // namespace sectionflow

#pragma once

#include "sectionflow.h"

/// Somebody else's library with an operation of its own.
namespace acme {

struct SwishOptions {
  float slope = 1;  ///< above 0
};

/// y = x / (1 + e^(-slope x)). Shapes: y like x. Throws: ArgumentError for a slope that is not above 0.
/// Source: Ramachandran et al. 2017, Searching for activation functions.
sectionflow::Value swish(sectionflow::Value x, SwishOptions options = {},
                         sectionflow::Where where = sectionflow::Where::here());

/// Makes SectionFlow know it: once, before the first session.
void register_swish();

}  // namespace acme

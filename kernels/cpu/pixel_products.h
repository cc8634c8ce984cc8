#pragma once

#include <memory>

#include "graph/nodes/convolution.h"
#include "kernels/cpu/onednn_call.h"

namespace sectionflow {

/// The gradient of the filter of a window of one pixel as one product of bf16, x^T dy: oneDNN's code for convolutions
/// transposes x and dy as a whole first, and takes 1.2 to 4 times as long (2.6, AMX; 1.2 to 2 in 3.7). Where the window
/// has a stride, the pixels that it keeps are gathered in workspace. Inputs: dy, x, with channels last.
/// nullptr for other geometries, for few channels, and where oneDNN has no code for the product.
std::unique_ptr<Kernel> pixel_filter_gradient(OneDnn& onednn, const ConvolutionGeometry& geometry);

}  // namespace sectionflow

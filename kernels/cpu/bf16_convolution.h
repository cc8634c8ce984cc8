#pragma once

#include <memory>

#include "graph/nodes/convolution.h"
#include "kernels/cpu/onednn_call.h"

namespace sectionflow {

/// Whether oneDNN's code for bf16 may be taken. That of 2.6.3 leaves out weights of the gradient that meet zeros alone,
/// and has wrong numbers for volumes, dilation, strides or windows that differ between the axes where there is a
/// stride, and numbers of channels or filters that fill no vector. With a stride it ends the process where a window
/// lies in the padding as a whole, and has wrong numbers where pixels are left behind the last window.
bool may_take_bf16(const ConvolutionGeometry& geometry);

/// The gradient of the filter of a window of one pixel as one product of bf16, x^T dy: oneDNN's code for convolutions
/// transposes x and dy as a whole first, and takes 1.2 to 4 times as long (2.6, AMX; 1.2 to 2 in 3.7). Where the window
/// has a stride, the pixels that it keeps are gathered in workspace. Inputs: dy, x, with channels last.
/// nullptr for other geometries, for few channels, and where oneDNN has no code for the product.
std::unique_ptr<Kernel> pixel_filter_gradient(OneDnn& onednn, const ConvolutionGeometry& geometry);

}  // namespace sectionflow

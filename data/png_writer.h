#pragma once

#include <string>

#include "base/host_tensor.h"

namespace sectionflow {

/// An image as the bytes of a PNG file. Shapes: image u8 [H, W, C]; C is 1 (grey), 2 (grey and alpha), 3 (RGB) or
/// 4 (RGBA). Throws: ArgumentError, which `what` begins, for other types and shapes, images without a pixel, and those
/// of more than 128 MiB. Source: PNG specification, third edition.
std::string png_of(const HostTensor& image, const std::string& what);

}  // namespace sectionflow

#pragma once

#include <filesystem>
#include <string>

#include "base/export.h"
#include "base/host_tensor.h"

namespace SF_API sectionflow {

/// Writes an image as a PNG file, which appears whole or not at all. Shapes: image u8 [H, W, C]; C is 1 (grey), 2 (grey
/// and alpha), 3 (RGB) or 4 (RGBA). Reading them, and JPEG, is decode_image's (sources/image.h).
/// Throws: ArgumentError (SF-E431) for other types and shapes, images without a pixel, and those of more than 128 MiB;
/// DataError when the file cannot be written. Source: PNG specification, third edition.
void write_png(const std::filesystem::path& path, const HostTensor& image);
/// The bytes that write_png writes; `what` begins every error. Throws: as write_png for the image.
std::string png_of(const HostTensor& image, const std::string& what = "png_of");

}  // namespace sectionflow

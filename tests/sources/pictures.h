#pragma once

#include <string>

#include "base/host_tensor.h"

namespace sectionflow::testing_support {

/// u8 [height, width, channels], of slow waves, so that a JPEG keeps most of it.
HostTensor some_picture(std::int64_t height, std::int64_t width, std::int64_t channels);

/// The picture as a file; a JPEG of four channels is one of inks, as Adobe's programs write it or as others do.
std::string png_of(const HostTensor& picture);
std::string jpeg_of(const HostTensor& picture, int quality, bool by_adobe = true);

}  // namespace sectionflow::testing_support

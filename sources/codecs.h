#pragma once

#include <string>
#include <string_view>

#include "base/host_tensor.h"
#include "sources/image.h"

namespace sectionflow {

/// One format each; see decode_image, which has checked the options. Throws: DataError.
HostTensor decode_jpeg(std::string_view file, const ImageOptions& options, const std::string& where);
HostTensor decode_png(std::string_view file, const ImageOptions& options, const std::string& where);

/// u8 [height, width, channels], when that is a picture and has no more pixels than it may. Throws: DataError.
HostTensor picture_of(std::int64_t width, std::int64_t height, std::int64_t source_width, std::int64_t source_height,
                      const ImageOptions& options, const std::string& where);

}  // namespace sectionflow

#pragma once

namespace sectionflow {

/// Where the channels of an image stand: last ([N, H, W, C], in three dimensions [N, D, H, W, C]), the default and the
/// fast one, or behind the batch ([N, C, H, W], [N, C, D, H, W]).
enum class DataFormat { nhwc, nchw };

}  // namespace sectionflow

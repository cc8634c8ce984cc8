#pragma once

#include "base/export.h"

namespace SF_API sectionflow {

/// Where the channels of an image stand: last ([N, H, W, C], in three dimensions [N, D, H, W, C]), the default and the
/// fast one, or behind the batch ([N, C, H, W], [N, C, D, H, W]).
enum class DataFormat { nhwc, nchw };

/// The axis of the channels.
constexpr int channel_axis(DataFormat format) {
  return format == DataFormat::nhwc ? -1 : 1;
}
/// The shape in words, for messages.
constexpr const char* channels_text(DataFormat format) {
  return format == DataFormat::nhwc ? "[..., C]" : "[N, C, ...]";
}
/// The field "format" of a file (graph/option_fields.h).
template <class Fields, class Format>
void describe_format(Fields& fields, Format& format) {
  fields.choice("format", format, {{DataFormat::nhwc, "nhwc"}, {DataFormat::nchw, "nchw"}});
}

}  // namespace sectionflow

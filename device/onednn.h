#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include "base/shape.h"

namespace sectionflow {

/// oneDNN's engine and stream of a CPU device.
struct OneDnn {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

/// The layout of image activations, in one place: dense, as the tensors lie. `shape` is [N, H, W, C] or [N, D, H, W,
/// C], or, where channels stand behind the batch, [N, C, H, W] or [N, C, D, H, W]; oneDNN counts dimensions in the
/// latter order.
dnnl::memory::desc image_layout(const Shape& shape, bool channels_last = true);

/// Attributes of every primitive: the scratchpad is ours, so that its bytes are planned.
dnnl::primitive_attr user_scratchpad();

}  // namespace sectionflow

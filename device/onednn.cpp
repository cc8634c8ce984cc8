#include "device/onednn.h"

namespace sectionflow {

dnnl::memory::desc image_layout(const Shape& shape) {
  return {{shape[0], shape[3], shape[1], shape[2]}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::nhwc};
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

}  // namespace sectionflow

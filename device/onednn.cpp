#include "device/onednn.h"

#include <algorithm>

namespace sectionflow {

dnnl::memory::desc image_layout(const Shape& shape, bool channels_last) {
  using tag = dnnl::memory::format_tag;
  const bool is_flat = shape.rank() == 4;
  dnnl::memory::dims dims = shape.dims();
  if (channels_last) std::rotate(dims.begin() + 1, dims.end() - 1, dims.end());
  const tag format = channels_last ? (is_flat ? tag::nhwc : tag::ndhwc) : (is_flat ? tag::nchw : tag::ncdhw);
  return {dims, dnnl::memory::data_type::f32, format};
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

}  // namespace sectionflow

#include "device/onednn.h"

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>

#include "base/error.h"
#include "device/instruction_set.h"

#if DNNL_VERSION_MAJOR == 2
#define SF_ONEDNN_HAS_OPERATION_DESCRIPTORS 1
#elif DNNL_VERSION_MAJOR == 3
#define SF_ONEDNN_HAS_OPERATION_DESCRIPTORS 0
#else
#error "oneDNN of another major version than 2 and 3: how its primitives are described must be written here first"
#endif
namespace sectionflow {
namespace {

/// Made once: oneDNN 3 ends the process where it is refused memory while it makes one.
const dnnl::engine& engine_of_process() {
  (void)instruction_set();  // holds oneDNN down, which it takes before its first use alone
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

template <class Description>
bool find(Description& description, WantedImplementation is_wanted) {
  do {
    if (is_wanted(description.impl_info_str())) return true;
  } while (description.next_impl());
  return false;
}

/// `make` makes a description of the first implementation.
template <class Make>
auto first_wanted(WantedImplementation is_wanted, const Make& make) {
  auto description = make();
  return find(description, is_wanted) ? description : make();
}

/// The description of a `Primitive` of these words; `forward`: none, or that of the convolution itself.
template <class Primitive, class Words, class... Forward>
auto describe(const OneDnn& onednn, WantedImplementation is_wanted, const dnnl::primitive_attr& attributes,
              const Words& words, const Forward&... forward) {
  using Description = typename Primitive::primitive_desc;
#if SF_ONEDNN_HAS_OPERATION_DESCRIPTORS
  // Going on to the next implementation reads it again.
  const auto operation = words([](const auto&... word) { return typename Primitive::desc(word...); });
  return first_wanted(is_wanted, [&] { return Description(operation, attributes, onednn.engine, forward...); });
#else
  return first_wanted(is_wanted, [&] {
    return words([&](const auto&... word) { return Description(onednn.engine, word..., forward..., attributes); });
  });
#endif
}

template <class Primitive>
auto describe_backward(const OneDnn& onednn, const OneDnnConvolution& wanted,
                       const dnnl::convolution_forward::primitive_desc& forward, WantedImplementation is_wanted) {
  const auto words = [&wanted](const auto& say) {
    return say(dnnl::algorithm::convolution_direct, wanted.x, wanted.weights, wanted.y, wanted.stride, wanted.dilation,
               wanted.before, wanted.after);
  };
  return describe<Primitive>(onednn, is_wanted, user_scratchpad(), words, forward);
}

/// What oneDNN takes by itself.
constexpr int kLibraryCapacity = 1024;
constexpr int kCapacity = 256;

}  // namespace

OneDnn::OneDnn() try : engine(engine_of_process()), stream(engine) {
} catch (const dnnl::error& error) {
  throw DeviceError(error_text_of("cpu: oneDNN gives no stream: ", error.what(),
                                  hint("is there memory left? ONEDNN_VERBOSE=1 has oneDNN tell more")));
}

std::string onednn_version() {
  const dnnl_version_t* version = dnnl::version();
  return text_of("oneDNN ", version->major, ".", version->minor, ".", version->patch);
}

dnnl::memory::desc image_layout(const Shape& shape, bool channels_last, dnnl::memory::data_type type) {
  using tag = dnnl::memory::format_tag;
  const bool is_flat = shape.rank() == 4;
  dnnl::memory::dims dims = shape.dims();
  if (channels_last) std::rotate(dims.begin() + 1, dims.end() - 1, dims.end());
  const tag format = channels_last ? (is_flat ? tag::nhwc : tag::ndhwc) : (is_flat ? tag::nchw : tag::ncdhw);
  return {dims, type, format};
}

dnnl::memory::data_type onednn_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16:
      return dnnl::memory::data_type::bf16;
    case Dtype::i8:
      return dnnl::memory::data_type::s8;
    case Dtype::u8:
      return dnnl::memory::data_type::u8;
    case Dtype::i32:
      return dnnl::memory::data_type::s32;
    default:
      return dnnl::memory::data_type::f32;
  }
}

dnnl::memory::desc in_any_order(const dnnl::memory::desc& layout) {
  const auto any = dnnl::memory::format_tag::any;
#if SF_ONEDNN_HAS_OPERATION_DESCRIPTORS
  return {layout.dims(), layout.data_type(), any};
#else
  return {layout.get_dims(), layout.get_data_type(), any};
#endif
}

std::string layout_text(const dnnl::memory::desc& layout) {
  const auto list = [](const auto& numbers, std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += text_of(i == 0 ? "" : "x", numbers[i]);
    return text;
  };
#if SF_ONEDNN_HAS_OPERATION_DESCRIPTORS
  const auto& all = layout.data;
  const auto rank = static_cast<std::size_t>(all.ndims),
             blocks = static_cast<std::size_t>(all.format_desc.blocking.inner_nblks);
  const std::string parts =
      all.format_kind != dnnl_blocked
          ? text_of("in format ", all.format_kind)
          : text_of(list(all.padded_dims, rank), " by ", list(all.format_desc.blocking.strides, rank), " in ",
                    list(all.format_desc.blocking.inner_blks, blocks), " of ",
                    list(all.format_desc.blocking.inner_idxs, blocks));
  return text_of(list(all.dims, rank), " as ", parts, ", ", layout.get_size(), " bytes");
#else
  const auto whole = [&list](const auto& numbers) { return list(numbers, numbers.size()); };
  const std::string parts = layout.get_format_kind() != dnnl::memory::format_kind::blocked
                                ? text_of("in format ", static_cast<int>(layout.get_format_kind()))
                                : text_of(whole(layout.get_padded_dims()), " by ", whole(layout.get_strides()), " in ",
                                          whole(layout.get_inner_blks()), " of ", whole(layout.get_inner_idxs()));
  return text_of(whole(layout.get_dims()), " as ", parts, ", ", layout.get_size(), " bytes");
#endif
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR == 3 && DNNL_VERSION_MINOR >= 4
  attributes.set_deterministic(true);
#endif
  return attributes;
}

bool is_jit(std::string_view name) {
  return name.starts_with("jit") || name.starts_with("brg") || name.starts_with("brdgmm");
}

bool is_exact_with_bytes(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  return is_jit(name) && (has("vnni") || has("amx") || has("avx10"));
}

namespace {

/// What follows a convolution: the residual, then the maximum.
dnnl::primitive_attr attributes_of(const OneDnnConvolution& wanted) {
  dnnl::post_ops following;
  if (wanted.adds_residual) following.append_sum();
#if SF_ONEDNN_HAS_OPERATION_DESCRIPTORS
  if (wanted.relu) following.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
#else
  if (wanted.relu) following.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
#endif
  dnnl::primitive_attr attributes = user_scratchpad();
  attributes.set_post_ops(following);
  return attributes;
}

}  // namespace

dnnl::convolution_forward::primitive_desc describe_convolution(const OneDnn& onednn, const OneDnnConvolution& wanted,
                                                               WantedImplementation is_wanted) {
  if (wanted.bias.get_size() > 0) {
    return describe<dnnl::convolution_forward>(onednn, is_wanted, attributes_of(wanted), [&wanted](const auto& say) {
      return say(dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, wanted.x, wanted.weights,
                 wanted.bias, wanted.y, wanted.stride, wanted.dilation, wanted.before, wanted.after);
    });
  }
  return describe<dnnl::convolution_forward>(onednn, is_wanted, user_scratchpad(), [&wanted](const auto& say) {
    return say(dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, wanted.x, wanted.weights,
               wanted.y, wanted.stride, wanted.dilation, wanted.before, wanted.after);
  });
}

dnnl::convolution_backward_data::primitive_desc describe_backward_data(
    const OneDnn& onednn, const OneDnnConvolution& wanted, const dnnl::convolution_forward::primitive_desc& forward,
    WantedImplementation is_wanted) {
  return describe_backward<dnnl::convolution_backward_data>(onednn, wanted, forward, is_wanted);
}

dnnl::convolution_backward_weights::primitive_desc describe_backward_weights(
    const OneDnn& onednn, const OneDnnConvolution& wanted, const dnnl::convolution_forward::primitive_desc& forward,
    WantedImplementation is_wanted) {
  return describe_backward<dnnl::convolution_backward_weights>(onednn, wanted, forward, is_wanted);
}

dnnl::matmul::primitive_desc describe_matmul(const OneDnn& onednn, const dnnl::memory::desc& a,
                                             const dnnl::memory::desc& b, const dnnl::memory::desc& y, bool adds,
                                             WantedImplementation is_wanted) {
  dnnl::primitive_attr attributes = user_scratchpad();
  if (adds) {
    dnnl::post_ops addition;
    addition.append_sum();
    attributes.set_post_ops(addition);
  }
  return describe<dnnl::matmul>(onednn, is_wanted, attributes, [&](const auto& say) { return say(a, b, y); });
}

void bound_primitive_cache() {
  if (dnnl::get_primitive_cache_capacity() == kLibraryCapacity) dnnl::set_primitive_cache_capacity(kCapacity);
}

}  // namespace sectionflow

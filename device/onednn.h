#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/shape.h"

namespace sectionflow {

/// oneDNN's engine, the same in all of a process, and a stream of a CPU device. Throws: DeviceError.
struct OneDnn {
  OneDnn();

  dnnl::engine engine;
  dnnl::stream stream;
};

/// "oneDNN 2.6.3", of the library that the process has.
std::string onednn_version();

/// The layout of image activations, in one place: dense, as the tensors lie. `shape` is [N, H, W, C] or [N, D, H, W,
/// C], or, where channels stand behind the batch, [N, C, H, W] or [N, C, D, H, W]; oneDNN counts dimensions in the
/// latter order.
dnnl::memory::desc image_layout(const Shape& shape, bool channels_last = true,
                                dnnl::memory::data_type type = dnnl::memory::data_type::f32);

/// f32, bf16, i8, u8 and i32 in oneDNN's words.
dnnl::memory::data_type onednn_type(Dtype dtype);
/// Elements as those of `layout`, in the order that a primitive likes.
dnnl::memory::desc in_any_order(const dnnl::memory::desc& layout);

/// What tells layouts apart: dimensions with what fills them up, strides, blocks, bytes.
std::string layout_text(const dnnl::memory::desc& layout);

/// Attributes of every primitive: the scratchpad is ours, so that its bytes are planned, and the same execution gives
/// the same bits, which oneDNN promises from 3.4 on where it is asked to; what we take of older versions does so too.
dnnl::primitive_attr user_scratchpad();

// What primitives are described by. oneDNN 2 and 3 want it said in different ways: the functions here are alike under
// both, and the only place that knows which of them is there.

/// Whether an implementation is wanted, by its name: "jit:avx512_core".
using WantedImplementation = bool (*)(std::string_view name);

/// Whether an implementation is made for the machine (jit, brgemm): neither gemm, which takes memory that no scratchpad
/// shows, nor the reference, which is slow.
bool is_jit(std::string_view name);

/// Whether an implementation is exact with 8 bits: it multiplies on instructions that add products of bytes to sums of
/// 32 bits (VNNI, AMX). What oneDNN makes without them cuts sums of two products to 16 bits, or halves the weights;
/// gemm and the reference are none of is_jit.
bool is_exact_with_bytes(std::string_view name);

/// A convolution in oneDNN's words, the same for its gradients.
struct OneDnnConvolution {
  dnnl::memory::desc x, weights, y;
  dnnl::memory::dims stride;
  dnnl::memory::dims dilation;  // how many elements are left out
  dnnl::memory::dims before, after;
  // Of inference alone, where there is a bias: what is added to y, and whether y is the maximum of 0 and that.
  dnnl::memory::desc bias{};
  bool adds_residual = false;  ///< to what y holds
  bool relu = false;
};

// The first implementation that is wanted; where none is, the first of all.
dnnl::convolution_forward::primitive_desc describe_convolution(const OneDnn& onednn, const OneDnnConvolution& wanted,
                                                               WantedImplementation is_wanted = is_jit);
// `forward`: any description of the convolution itself.
dnnl::convolution_backward_data::primitive_desc describe_backward_data(
    const OneDnn& onednn, const OneDnnConvolution& wanted, const dnnl::convolution_forward::primitive_desc& forward,
    WantedImplementation is_wanted = is_jit);
dnnl::convolution_backward_weights::primitive_desc describe_backward_weights(
    const OneDnn& onednn, const OneDnnConvolution& wanted, const dnnl::convolution_forward::primitive_desc& forward,
    WantedImplementation is_wanted = is_jit);
/// y = a b, or y + a b where it `adds`.
dnnl::matmul::primitive_desc describe_matmul(const OneDnn& onednn, const dnnl::memory::desc& a,
                                             const dnnl::memory::desc& b, const dnnl::memory::desc& y,
                                             bool adds = false, WantedImplementation is_wanted = is_jit);

/// Lets oneDNN's own cache, one of the process, keep so many primitives and no more: enough for those of one program to
/// be shared, and few enough (about 12 MiB) not to keep what dropped programs have given back. A number that the
/// environment (ONEDNN_PRIMITIVE_CACHE_CAPACITY) or another user of oneDNN in the process has chosen is left.
void bound_primitive_cache();

}  // namespace sectionflow

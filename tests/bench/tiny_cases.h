#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "bench/ops/measure_case.h"
#include "tests/support/test_device.h"

namespace sectionflow::bench {

/// An operation under a small shape.
struct TinyCase {
  std::string op, shape;
  SettingTexts settings{};
};

/// One for each operation of the table.
inline std::vector<TinyCase> tiny_cases() {
  return {{"conv2d", "2x5x6x4", {{"filters", "6"}, {"kernel", "3x2"}, {"stride", "2x1"}, {"groups", "2"}}},
          {"conv3d", "1x4x5x3x2", {{"filters", "3"}, {"padding", "valid"}, {"kernel", "2"}}},
          {"conv_transpose2d", "2x3x4x5", {{"filters", "3"}}},
          {"conv_transpose3d", "1x2x3x2x4", {{"filters", "2"}, {"stride", "1x2x1"}}},
          {"matmul", "5x7", {{"columns", "3"}}},
          {"batch_matmul", "2x3x5x7", {{"columns", "4"}}},
          {"matmul_over_rows", "3x5x2", {{"columns", "4"}}},
          {"dense", "2x3x5", {{"columns", "3"}}},
          {"bias_add", "3x4x5"},
          {"attention", "2x3x4x5", {{"keys", "6"}}},
          {"max_pool2d", "2x6x8x3", {{"kernel", "2"}, {"padding", "valid"}}},
          {"average_pool2d", "2x6x8x3"},
          {"max_pool3d", "1x4x4x6x2"},
          {"average_pool3d", "1x4x4x6x2"},
          {"global_average_pool2d", "2x3x4x5"},
          {"batch_norm", "3x4x5"},
          {"layer_norm", "4x7"},
          {"rms_norm", "4x7"},
          {"group_norm", "3x4x6", {{"groups", "2"}}},
          {"instance_norm", "3x4x5"},
          {"softmax", "3x5"},
          {"log_softmax", "3x5"},
          {"softmax_cross_entropy", "4x6"},
          {"ctc_loss", "2x8x5"},
          {"add", "3x7"},
          {"mul", "3x7"},
          {"div", "3x7"},
          {"maximum", "3x7"},
          {"relu", "3x7"},
          {"gelu", "3x7"},
          {"silu", "3x7"},
          {"sigmoid", "3x7"},
          {"tanh", "3x7"},
          {"exp", "3x7"},
          {"square", "3x7"},
          {"expm1", "3x7"},
          {"log1p", "3x7"},
          {"abs", "3x7"},
          {"sin", "3x7"},
          {"cos", "3x7"},
          {"erf", "3x7"},
          {"softplus", "3x7"},
          {"mish", "3x7"},
          {"hard_swish", "3x7"},
          {"leaky_relu", "3x7"},
          {"elu", "3x7"},
          {"clip", "3x7"},
          {"dropout", "3x7"},
          {"cast", "3x7"},
          {"reduce_sum", "3x4x5"},
          {"reduce_mean", "3x4x5", {{"axis", "1"}}},
          {"reduce_max", "3x4x5", {{"axis", "0"}}},
          {"reduce_min", "3x4x5", {{"axis", "2"}}},
          {"global_norm", "3x7"},
          {"argmax", "3x7"},
          {"gather", "9x4", {{"indices", "5"}}},
          {"scatter_add", "9x4", {{"indices", "5"}}},
          {"gather_nd", "4x5x3", {{"indices", "6"}}},
          {"segment_sum", "9x4", {{"segments", "3"}}},
          {"cumsum", "3x4x5", {{"axis", "1"}}},
          {"top_k", "3x7", {{"k", "2"}}},
          {"categorical", "3x7"},
          {"random_gumbel_like", "3x7"},
          {"concat", "3x4", {{"parts", "3"}, {"axis", "0"}}},
          {"slice", "4x6"},
          {"pad", "2x3x4x5"},
          {"transpose", "2x3x4x5"},
          {"resize2d", "2x3x4x5"},
          {"apply_sgd", "50"},
          {"apply_momentum", "50"},
          {"apply_adam", "5x10"},
          {"apply_adam_w", "50"},
          {"apply_adagrad", "50"},
          {"apply_rms_prop", "50"},
          {"apply_lion", "50"},
          {"apply_lamb", "50"},
          {"apply_adafactor", "5x10"},
          {"apply_adam_8bit", "50"}};
}

inline MeasureOptions tiny_options() {
  return {.session = {.device = testing_support::test_device(), .device_memory = 16_MiB, .threads = 2},
          .peaks = {.copy_bytes = 64_KiB, .matrix_side = 32},
          .repeats = 2};
}

/// The gradient is asked for where there is one.
inline CaseResult measure(const TinyCase& tiny, Dtype dtype = Dtype::f32) {
  const bool gradient = benched_op(tiny.op).has_gradient;
  return measure_case(
      case_request(tiny.op, {.shape = tiny.shape, .settings = tiny.settings, .dtype = dtype, .gradient = gradient}),
      tiny_options());
}

}  // namespace sectionflow::bench

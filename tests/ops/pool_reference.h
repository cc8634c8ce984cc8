#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "graph/nodes/pool.h"
#include "graph/nodes/window.h"
#include "graph/ops/pool.h"
#include "tests/support/op_case.h"

// Pools of every rank in double, output by output.

namespace sectionflow::testing_support {

/// Element (n, c, spatial place) of a tensor of images.
inline std::int64_t element_of(const Shape& shape, DataFormat format, std::int64_t n, std::int64_t c,
                               const std::vector<std::int64_t>& place) {
  const ImageDims dims = image_dims(shape, format);
  std::int64_t pixel = 0;
  for (std::size_t i = 0; i < place.size(); ++i) pixel = pixel * dims.sizes[i] + place[i];
  std::int64_t num_pixels = 1;
  for (std::int64_t size : dims.sizes) num_pixels *= size;
  return format == DataFormat::nhwc ? (n * num_pixels + pixel) * dims.channels + c
                                    : (n * dims.channels + c) * num_pixels + pixel;
}

/// Calls `body(place)` for all places below `sizes`, in order.
inline void for_each_place(const std::vector<std::int64_t>& sizes,
                           const std::function<void(const std::vector<std::int64_t>&)>& body) {
  std::int64_t count = 1;
  for (std::int64_t size : sizes) count *= size;
  std::vector<std::int64_t> place(sizes.size());
  for (std::int64_t k = 0; k < count; ++k) {
    std::int64_t rest = k;
    for (std::size_t i = sizes.size(); i-- > 0; rest /= sizes[i]) place[i] = rest % sizes[i];
    body(place);
  }
}

/// y of a pool, and for a maximum its index.
inline std::vector<Doubles> pool_reference(const Shape& x_shape, const PoolOptions& options, bool is_maximum,
                                           const Doubles& x) {
  const PoolGeometry g = pool_geometry(x_shape, options, "reference");
  const DataFormat format = options.steps.format;
  const Shape y_shape = image_shape({g.batch, g.channels, outputs_of(g.axes)}, format);
  Doubles y(static_cast<std::size_t>(y_shape.num_elements())), index(y.size());
  std::vector<std::int64_t> window;
  for (const WindowAxis& axis : g.axes) window.push_back(axis.window);
  for_each_place(outputs_of(g.axes), [&](const std::vector<std::int64_t>& out) {
    for (std::int64_t n = 0; n < g.batch; ++n) {
      for (std::int64_t c = 0; c < g.channels; ++c) {
        double sum = 0, best = 0;
        std::int64_t count = 0, tap = -1, best_tap = -1;
        for_each_place(window, [&](const std::vector<std::int64_t>& t) {
          ++tap;
          std::vector<std::int64_t> in(t.size());
          for (std::size_t i = 0; i < t.size(); ++i) {
            in[i] = out[i] * g.axes[i].stride - g.axes[i].before + t[i];
            if (in[i] < 0 || in[i] >= g.axes[i].size) return;
          }
          const double value = x[static_cast<std::size_t>(element_of(x_shape, format, n, c, in))];
          if (count++ == 0 || value > best) {
            best = value;
            best_tap = tap;
          }
          sum += value;
        });
        const auto at = static_cast<std::size_t>(element_of(y_shape, format, n, c, out));
        y[at] = is_maximum ? best : sum / static_cast<double>(options.include_padding ? g.num_taps() : count);
        index[at] = static_cast<double>(best_tap);
      }
    }
  });
  if (is_maximum) return {y, index};
  return {y};
}

/// Cases of max and average pools. `build` makes y; the index of a maximum is the other output of its
/// node.
inline OpCase pool_case(const std::string& name, const Shape& shape, const PoolOptions& options, bool is_maximum,
                        const std::function<Value(Value)>& build, bool dynamic_batch) {
  CaseInput x = input(shape);
  x.distinct = is_maximum;
  const PoolGeometry g = pool_geometry(shape, options, name);
  return {
      .name = name,
      .inputs = {x},
      .build =
          [=](Graph&, const std::vector<Value>& in) {
            const Value y = build(in[0]);
            return is_maximum ? std::vector{y, y.node().output(1)} : std::vector{y};
          },
      .reference = [=](const std::vector<Doubles>& in) { return pool_reference(shape, options, is_maximum, in[0]); },
      .tolerance = {.relative = is_maximum ? 0.0 : 2.0,
                    .absolute = is_maximum ? 0.0 : 2.0 + static_cast<double>(g.num_taps()) / 8},
      .step = is_maximum ? 1e-8 : 1e-5,  // below half the distance of two elements
      .dynamic_batch = dynamic_batch,
      .same_bits_for_any_threads = true};
}

}  // namespace sectionflow::testing_support

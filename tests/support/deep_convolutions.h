#pragma once

#include <functional>
#include <string>

#include "base/error.h"
#include "graph/nodes/convolution.h"
#include "graph/ops/basic.h"
#include "graph/ops/convolution.h"

namespace sectionflow::testing_support {

/// Calls `check` with convolutions over three dimensions, with their gradients, and with transposed ones.
inline void for_deep_and_transposed_convolutions(const std::function<void(const std::string& name, Value)>& check) {
  for (std::int64_t channels : {1, 17, 32}) {
    for (std::int64_t stride : {1, 2}) {
      Graph graph;
      const Conv3dOptions options{.stride = {stride, stride, stride}};
      const Value x = placeholder(graph, "x", {2, 8, 8, 8, channels});
      const Value w = placeholder(graph, "w", {3, 3, 3, channels, 16});
      const Value y = conv3d(x, w, options);
      const Value dy = placeholder(graph, "dy", y.shape());
      const std::string name = text_of("3-D, ", channels, " channels, /", stride);
      check(name, y);
      check(name, conv3d_backward_input(dy, w, x, options));
      check(name, conv3d_backward_filter(dy, x, w, options));
      const Value flat = placeholder(graph, "flat", {2, 8, 8, channels});
      const Value kernel = placeholder(graph, "kernel", {4, 4, 10, channels});
      check(text_of("transposed, ", channels, " channels, /", stride),
            conv_transpose2d(flat, kernel, {.stride = {stride, stride}}));
    }
  }
}

}  // namespace sectionflow::testing_support

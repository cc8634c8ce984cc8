#include "examples/models/mnist_cnn.h"

#include "graph/layers.h"
#include "graph/ops/dropout.h"
#include "graph/ops/layout.h"
#include "graph/ops/pool.h"
#include "graph/ops/unary.h"

namespace sectionflow {

ImageNetwork mnist_cnn(const MnistCnnOptions& options) {
  return [options](Value is_training) {
    const auto convolution = [](std::int64_t filters, const char* name) {
      return [=](Value x) {
        return max_pool2d(relu(conv2d(x, {.features = filters, .kernel = 5, .bias = true, .name = name})));
      };
    };
    const auto dense_part = [=](Value x) {
      const Shape& shape = x.shape();
      x = reshape(x, {-1, shape[1] * shape[2] * shape[3]});
      x = relu(dense(x, {.features = options.units, .kernel_initializer = he_normal(), .name = "hidden"}));
      x = dropout(x, is_training, {.rate = options.dropout});
      return dense(x, {.features = options.classes, .name = "fc"});
    };
    return std::vector<ModelBlock>{convolution(options.width, "conv1"), convolution(2 * options.width, "conv2"),
                                   dense_part};
  };
}

}  // namespace sectionflow

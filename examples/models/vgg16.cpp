#include "examples/models/vgg16.h"

#include "base/error.h"
#include "graph/layers.h"
#include "graph/ops/dropout.h"
#include "graph/ops/layout.h"
#include "graph/ops/pool.h"
#include "graph/ops/unary.h"

namespace sectionflow {
namespace {

Value classify(Value x, Value is_training, const Vgg16Options& options) {
  const Shape& shape = x.shape();
  x = reshape(x, {-1, shape[1] * shape[2] * shape[3]});
  for (const char* name : {"hidden1", "hidden2"}) {
    x = relu(dense(x, {.features = options.units, .kernel_initializer = he_normal(), .name = name}));
    x = dropout(x, is_training, {.rate = options.dropout});
  }
  return dense(x, {.features = options.classes, .name = "fc"});
}

}  // namespace

ImageNetwork vgg16(const Vgg16Options& options) {
  return [options](Value is_training) {
    std::vector<ModelBlock> blocks;
    const int convolutions[] = {2, 2, 3, 3, 3}, widths[] = {1, 2, 4, 8, 8};
    for (int stage = 0; stage < 5; ++stage) {
      for (int number = 1; number <= convolutions[stage]; ++number) {
        const std::int64_t filters = options.width * widths[stage];
        const bool is_last = number == convolutions[stage];
        const std::string name = text_of("stage", stage + 1, "_conv", number);
        blocks.push_back([=](Value x) {
          x = conv2d(x, {.features = filters, .bias = true, .name = name});
          x = options.batch_norm
                  ? batch_norm(x, is_training, {.decay = options.decay, .relu = true, .name = name + "_norm"})
                  : relu(x);
          return is_last ? max_pool2d(x) : x;
        });
      }
    }
    blocks.push_back([=](Value x) { return classify(x, is_training, options); });
    return blocks;
  };
}

}  // namespace sectionflow

#include "examples/models/vgg.h"

#include <array>

#include "base/error.h"
#include "graph/layers.h"
#include "graph/ops/dropout.h"
#include "graph/ops/layout.h"
#include "graph/ops/pool.h"
#include "graph/ops/unary.h"

namespace sectionflow {
namespace {

using Convolutions = std::array<int, 5>;  // one number a stage

Convolutions convolutions_of(int depth) {
  if (depth == 16) return {2, 2, 3, 3, 3};
  if (depth == 19) return {2, 2, 4, 4, 4};
  throw ArgumentError(text_of("vgg of depth ", depth, "; wanted 16 or 19"));
}

Value classify(Value x, Value is_training, const VggOptions& options) {
  const Shape& shape = x.shape();
  x = reshape(x, {-1, shape[1] * shape[2] * shape[3]});
  for (const char* name : {"hidden1", "hidden2"}) {
    x = relu(dense(x, {.features = options.units, .kernel_initializer = he_normal(), .name = name}));
    x = dropout(x, is_training, {.rate = options.dropout});
  }
  return dense(x, {.features = options.classes, .name = "fc"});
}

}  // namespace

ImageNetwork vgg(const VggOptions& options) {
  return [options, convolutions = convolutions_of(options.depth)](Value is_training) {
    std::vector<ModelBlock> blocks;
    constexpr int widths[] = {1, 2, 4, 8, 8};
    for (std::size_t stage = 0; stage < convolutions.size(); ++stage) {
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

#include "examples/models/densenet121.h"

#include "base/error.h"
#include "graph/layers.h"
#include "graph/ops/parts.h"
#include "graph/ops/pool.h"

namespace sectionflow {
namespace {

class Densenet121Builder {
 public:
  Densenet121Builder(Value is_training, const Densenet121Options& options)
      : is_training_(is_training), options_(options) {}

  Value stem(Value x) const {
    const auto scope = x.graph().scope("stem");
    const Value y = norm_relu(conv(x, 2 * options_.growth, 7, 2, "conv"), "norm");
    return max_pool2d(y, {.window = 3, .stride = 2, .padding = 1});
  }
  /// x [N, H, W, C] -> [N, H, W, C + growth]
  Value layer(Value x, const std::string& name) const {
    const auto scope = x.graph().scope(name);
    Value y = conv(norm_relu(x, "norm1"), 4 * options_.growth, 1, 1, "conv1");
    y = conv(norm_relu(y, "norm2"), options_.growth, 3, 1, "conv2");
    return concat({x, y}, -1);
  }
  /// x [N, H, W, C] -> [N, H / 2, W / 2, C / 2]
  Value transition(Value x, const std::string& name) const {
    const auto scope = x.graph().scope(name);
    return average_pool2d(conv(norm_relu(x, "norm"), x.shape()[3] / 2, 1, 1, "conv"));
  }
  Value head(Value x) const {
    const auto scope = x.graph().scope("head");
    return dense(global_average_pool2d(norm_relu(x, "norm")), {.features = options_.classes, .name = "fc"});
  }

 private:
  static Value conv(Value x, std::int64_t filters, std::int64_t kernel, std::int64_t stride, const char* name) {
    return conv2d(x, {.features = filters,
                      .kernel = {kernel, kernel},
                      .stride = {stride, stride},
                      .padding = Padding(kernel / 2, kernel / 2),
                      .name = name});
  }
  Value norm_relu(Value x, const char* name) const {
    return batch_norm(x, is_training_, {.decay = options_.decay, .relu = true, .name = name});
  }

  Value is_training_;
  Densenet121Options options_;
};

}  // namespace

ImageNetwork densenet121(const Densenet121Options& options) {
  return [options](Value is_training) {
    const Densenet121Builder builder(is_training, options);
    const int layers[] = {6, 12, 24, 16};
    std::vector<ModelBlock> blocks;
    for (int stage = 0; stage < 4; ++stage) {
      for (int layer = 0; layer < layers[stage]; ++layer) {
        const bool is_first = stage == 0 && layer == 0, ends_stage = layer == layers[stage] - 1;
        blocks.push_back([=](Value x) {
          if (is_first) x = builder.stem(x);
          x = builder.layer(x, text_of("stage", stage + 1, "_layer", layer));
          if (!ends_stage) return x;
          return stage < 3 ? builder.transition(x, text_of("transition", stage + 1)) : builder.head(x);
        });
      }
    }
    return blocks;
  };
}

}  // namespace sectionflow

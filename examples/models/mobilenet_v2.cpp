#include "examples/models/mobilenet_v2.h"

#include <algorithm>

#include "base/error.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/dropout.h"
#include "graph/ops/pool.h"
#include "graph/ops/unary.h"

namespace sectionflow {
namespace {

/// The blocks of one stage: expansion, channels (at a stem of 32), number, stride of the first.
struct Stage {
  std::int64_t expansion, channels;
  int blocks;
  std::int64_t stride;
};
constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                             {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
constexpr std::int64_t kLastChannels = 1280;

class MobilenetV2Builder {
 public:
  MobilenetV2Builder(Value is_training, const MobilenetV2Options& options)
      : is_training_(is_training), options_(options) {}

  /// `channels` at the width that was asked for: the nearest multiple of 8 that is not less than nine tenths of it.
  std::int64_t scaled(std::int64_t channels) const {
    const std::int64_t exact = channels * options_.width;  // in units of 1/32
    const std::int64_t nearest = std::max<std::int64_t>(8, (exact + 4 * 32) / (8 * 32) * 8);
    return nearest * 32 * 10 < exact * 9 ? nearest + 8 : nearest;
  }

  Value stem(Value x) const { return unit(x, {.features = scaled(32), .stride = 2, .name = "stem"}); }

  Value block(Value x, std::int64_t expansion, std::int64_t filters, std::int64_t stride) const {
    const std::int64_t channels = x.shape()[3], hidden = expansion * channels;
    Value y = x;
    if (expansion != 1) y = unit(y, {.features = hidden, .kernel = 1, .name = "expand"});
    y = unit(y, {.features = hidden, .stride = {stride, stride}, .groups = hidden, .name = "depthwise"});
    y = norm(conv2d(y, {.features = filters, .kernel = 1, .name = "project"}), "project_norm");
    return stride == 1 && channels == filters ? x + y : y;
  }

  Value head(Value x) const {
    // Narrow networks keep their last layer, as in the paper.
    const std::int64_t filters = std::max(kLastChannels, scaled(kLastChannels));
    x = global_average_pool2d(unit(x, {.features = filters, .kernel = 1, .name = "head"}));
    return dense(dropout(x, is_training_, {.rate = options_.dropout}), {.features = options_.classes, .name = "fc"});
  }

 private:
  Value norm(Value x, const std::string& name) const {
    return batch_norm(x, is_training_, {.decay = options_.decay, .name = name});
  }
  /// Convolution, batch norm, relu6; a 3x3 kernel has one zero on each side, as in torchvision.
  Value unit(Value x, Conv2dOptions convolution) const {
    convolution.padding = Padding(convolution.kernel[0] / 2, convolution.kernel[1] / 2);
    return clip(norm(conv2d(x, convolution), convolution.name + "_norm"), 0, 6);
  }

  Value is_training_;
  MobilenetV2Options options_;
};

}  // namespace

ImageNetwork mobilenet_v2(const MobilenetV2Options& options) {
  return [options](Value is_training) {
    const MobilenetV2Builder builder(is_training, options);
    std::vector<ModelBlock> blocks;
    for (const Stage& stage : kStages) {
      for (int block = 0; block < stage.blocks; ++block) {
        const bool is_first = blocks.empty(), is_last = &stage == std::end(kStages) - 1 && block == stage.blocks - 1;
        const std::int64_t stride = block == 0 ? stage.stride : 1;
        const std::string name = text_of("block", blocks.size());
        blocks.push_back([=](Value x) {
          if (is_first) x = builder.stem(x);
          {
            const auto scope = x.graph().scope(name);
            x = builder.block(x, stage.expansion, builder.scaled(stage.channels), stride);
          }
          return is_last ? builder.head(x) : x;
        });
      }
    }
    return blocks;
  };
}

}  // namespace sectionflow

#include "examples/models/xception.h"

#include <algorithm>

#include "base/error.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/pool.h"
#include "graph/ops/unary.h"

namespace sectionflow {
namespace {

/// Channels at a stem of 32.
struct DownBlock {
  std::int64_t first, second;
};
constexpr DownBlock kEntryFlow[] = {{128, 128}, {256, 256}, {728, 728}};
constexpr DownBlock kExitFlow = {728, 1024};
constexpr int kMiddleBlocks = 8;

class XceptionBuilder {
 public:
  XceptionBuilder(Value is_training, const XceptionOptions& options) : is_training_(is_training), options_(options) {}

  /// x [N, H, W, 3] -> [N, H / 2, W / 2, 64], less the four pixels at the borders that 3x3 kernels leave out
  Value stem(Value x) const {
    const auto convolution = [&](Value y, std::int64_t channels, std::int64_t stride, const std::string& name) {
      return norm(
          conv2d(y,
                 {.features = scaled(channels), .stride = {stride, stride}, .padding = Padding::valid, .name = name}),
          name + "_norm", true);
    };
    return convolution(convolution(x, 32, 2, "conv1"), 64, 1, "conv2");
  }

  /// x [N, H, W, C] -> [N, H / 2, W / 2, second]. The stem has had its relu, what other blocks make has not.
  Value down_block(Value x, const DownBlock& channels, bool is_first) const {
    const Value shortcut =
        norm(conv2d(x, {.features = scaled(channels.second), .kernel = 1, .stride = 2, .name = "shortcut"}),
             "shortcut_norm", false);
    Value y = separable(is_first ? x : relu(x), channels.first, "separable1", true);
    y = separable(y, channels.second, "separable2", false);
    return max_pool2d(y, {.window = 3, .stride = 2, .padding = Padding::same}) + shortcut;
  }
  Value middle_block(Value x) const {
    Value y = separable(relu(x), 728, "separable1", true);
    y = separable(y, 728, "separable2", true);
    return separable(y, 728, "separable3", false) + x;
  }
  Value head(Value x) const {
    x = separable(x, 1536, "separable1", true);
    x = separable(x, 2048, "separable2", true);
    return dense(global_average_pool2d(x), {.features = options_.classes, .name = "fc"});
  }

 private:
  std::int64_t scaled(std::int64_t channels) const { return std::max<std::int64_t>(1, channels * options_.width / 32); }
  Value norm(Value x, const std::string& name, bool relu) const {
    return batch_norm(x, is_training_, {.decay = options_.decay, .relu = relu, .name = name});
  }
  Value separable(Value x, std::int64_t channels, const std::string& name, bool relu) const {
    const std::int64_t inputs = x.shape()[3];
    x = conv2d(x, {.features = inputs, .groups = inputs, .name = name + "_depthwise"});
    x = conv2d(x, {.features = scaled(channels), .kernel = 1, .name = name + "_pointwise"});
    return norm(x, name + "_norm", relu);
  }

  Value is_training_;
  XceptionOptions options_;
};

}  // namespace

ImageNetwork xception(const XceptionOptions& options) {
  return [options](Value is_training) {
    const XceptionBuilder builder(is_training, options);
    std::vector<ModelBlock> blocks;
    const auto add = [&](const ModelBlock& block) {
      blocks.push_back([block, name = text_of("block", blocks.size() + 1)](Value x) {
        const auto scope = x.graph().scope(name);
        return block(x);
      });
    };
    add([=](Value x) { return builder.stem(x); });
    for (const DownBlock& channels : kEntryFlow) {
      add([=, is_first = &channels == kEntryFlow](Value x) { return builder.down_block(x, channels, is_first); });
    }
    for (int block = 0; block < kMiddleBlocks; ++block) {
      add([=](Value x) { return builder.middle_block(x); });
    }
    add([=](Value x) { return builder.down_block(x, kExitFlow, false); });
    add([=](Value x) { return builder.head(x); });
    return blocks;
  };
}

}  // namespace sectionflow

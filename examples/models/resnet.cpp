#include "examples/models/resnet.h"

#include <array>

#include "base/error.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/pool.h"
#include "graph/ops/unary.h"

namespace sectionflow {
namespace {

struct Form {
  bool bottleneck;
  std::array<int, 4> blocks;  // one number a stage
};

Form form_of(int depth) {
  if (depth == 18) return {false, {2, 2, 2, 2}};
  if (depth == 34) return {false, {3, 4, 6, 3}};
  if (depth == 50) return {true, {3, 4, 6, 3}};
  if (depth == 101) return {true, {3, 4, 23, 3}};
  if (depth == 152) return {true, {3, 8, 36, 3}};
  throw ArgumentError(text_of("resnet of depth ", depth, "; wanted 18, 34, 50, 101 or 152"));
}

class ResnetBuilder {
 public:
  ResnetBuilder(Value is_training, const ResnetOptions& options) : is_training_(is_training), options_(options) {}

  /// x [N, H, W, 3] -> [N, H / 4, W / 4, width]
  Value stem(Value x) const {
    const auto scope = x.graph().scope("stem");
    const Value y = norm(conv(x, options_.width, 7, 2, "conv"), "norm", true);
    return max_pool2d(y, {.window = 3, .stride = 2, .padding = 1});
  }
  Value head(Value x) const {
    const auto scope = x.graph().scope("head");
    return dense(global_average_pool2d(x), {.features = options_.classes, .name = "fc"});
  }

  Value basic_block(Value x, std::int64_t width, std::int64_t stride) const {
    Value y = norm(conv(x, width, 3, stride, "conv1"), "norm1", true);
    y = norm(conv(y, width, 3, 1, "conv2"), "norm2", false);
    return relu(y + shortcut(x, width, stride));
  }
  Value bottleneck(Value x, std::int64_t width, std::int64_t stride) const {
    Value y = norm(conv(x, width, 1, 1, "conv1"), "norm1", true);
    y = norm(conv(y, width, 3, stride, "conv2"), "norm2", true);
    y = norm(conv(y, 4 * width, 1, 1, "conv3"), "norm3", false);
    return relu(y + shortcut(x, 4 * width, stride));
  }

 private:
  static Value conv(Value x, std::int64_t filters, std::int64_t kernel, std::int64_t stride, const char* name) {
    return conv2d(x, {.features = filters,
                      .kernel = {kernel, kernel},
                      .stride = {stride, stride},
                      .padding = Padding(kernel / 2, kernel / 2),
                      .name = name});
  }
  Value norm(Value x, const char* name, bool relu) const {
    return batch_norm(x, is_training_, {.decay = options_.decay, .relu = relu, .name = name});
  }
  Value shortcut(Value x, std::int64_t filters, std::int64_t stride) const {
    if (stride == 1 && x.shape()[3] == filters) return x;
    return norm(conv(x, filters, 1, stride, "shortcut_conv"), "shortcut_norm", false);
  }

  Value is_training_;
  ResnetOptions options_;
};

std::vector<ModelBlock> blocks_of(const ResnetOptions& options, Value is_training) {
  const Form form = form_of(options.depth);
  const ResnetBuilder builder(is_training, options);
  std::vector<ModelBlock> blocks;
  for (std::size_t stage = 0; stage < form.blocks.size(); ++stage) {
    for (int block = 0; block < form.blocks[stage]; ++block) {
      const bool is_first = stage == 0 && block == 0;
      const bool is_last = stage == 3 && block == form.blocks[stage] - 1;
      const std::int64_t width = options.width << stage, stride = block == 0 && stage > 0 ? 2 : 1;
      const std::string name = text_of("stage", stage + 1, "_block", block);
      blocks.push_back([=](Value x) {
        if (is_first) x = builder.stem(x);
        {
          const auto scope = x.graph().scope(name);
          x = form.bottleneck ? builder.bottleneck(x, width, stride) : builder.basic_block(x, width, stride);
        }
        return is_last ? builder.head(x) : x;
      });
    }
  }
  return blocks;
}

}  // namespace

ImageNetwork resnet(const ResnetOptions& options) {
  (void)form_of(options.depth);
  return [options](Value is_training) { return blocks_of(options, is_training); };
}

}  // namespace sectionflow

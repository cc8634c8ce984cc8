#include "examples/models/unet.h"

#include <memory>

#include "base/error.h"
#include "graph/layers.h"
#include "graph/ops/parts.h"
#include "graph/ops/pool.h"
#include "graph/ops/resize.h"

namespace sectionflow {
namespace {

class UnetBuilder {
 public:
  UnetBuilder(Value is_training, const UnetOptions& options) : is_training_(is_training), options_(options) {}

  Value double_conv(Value x, std::int64_t filters) const {
    for (const char* name : {"conv1", "conv2"}) {
      x = batch_norm(conv(x, filters, 3, false, name), is_training_,
                     {.decay = options_.decay, .relu = true, .name = std::string(name) + "_norm"});
    }
    return x;
  }
  Value pool(Value x) const { return flat() ? max_pool2d(x) : max_pool3d(x); }

  /// x at twice the resolution, beside what the encoder had there.
  Value up(Value x, Value skip) const { return concat({skip, enlarged(x)}, -1); }

  Value classify(Value x) const { return conv(x, options_.classes, 1, true, "head"); }

 private:
  bool flat() const { return options_.dimensions == 2; }

  Value enlarged(Value x) const {
    const std::int64_t half = x.shape()[-1] / 2;
    if (options_.up_sampling == UpSampling::resize) {
      return resize2d(x, {.height = 2 * x.shape()[1], .width = 2 * x.shape()[2], .method = ResizeMethod::bilinear});
    }
    if (flat()) return conv_transpose2d(x, {.features = half, .kernel = 2, .stride = 2, .bias = true, .name = "up"});
    return conv_transpose3d(x, {.features = half, .kernel = 2, .stride = 2, .bias = true, .name = "up"});
  }
  Value conv(Value x, std::int64_t filters, std::int64_t kernel, bool bias, const char* name) const {
    if (flat()) return conv2d(x, {.features = filters, .kernel = {kernel, kernel}, .bias = bias, .name = name});
    return conv3d(x, {.features = filters, .kernel = {kernel, kernel, kernel}, .bias = bias, .name = name});
  }

  Value is_training_;
  UnetOptions options_;
};

std::vector<ModelBlock> blocks_of(const UnetOptions& options, Value is_training) {
  const UnetBuilder builder(is_training, options);
  const auto skips = std::make_shared<std::vector<Value>>(static_cast<std::size_t>(options.depth));
  std::vector<ModelBlock> blocks;
  for (int level = 0; level <= options.depth; ++level) {
    blocks.push_back([=](Value x) {
      const auto scope = x.graph().scope("down" + std::to_string(level));
      x = builder.double_conv(level > 0 ? builder.pool(x) : x, options.width << level);
      if (level < options.depth) (*skips)[static_cast<std::size_t>(level)] = x;
      return x;
    });
  }
  for (int level = options.depth - 1; level >= 0; --level) {
    blocks.push_back([=](Value x) {
      const auto scope = x.graph().scope("up" + std::to_string(level));
      x = builder.double_conv(builder.up(x, (*skips)[static_cast<std::size_t>(level)]), options.width << level);
      return level == 0 ? builder.classify(x) : x;
    });
  }
  return blocks;
}

}  // namespace

ImageNetwork unet(const UnetOptions& options) {
  SF_CHECK(options.dimensions == 2 || options.dimensions == 3, ArgumentError, "unet in ", options.dimensions,
           " dimensions; wanted 2 or 3");
  SF_CHECK(options.depth >= 1 && options.depth < 16, ArgumentError, "unet of depth ", options.depth,
           "; wanted 1 to 15");
  SF_CHECK(options.dimensions == 2 || options.up_sampling == UpSampling::transposed_convolution, ArgumentError,
           "unet in 3 dimensions cannot resize; try UpSampling::transposed_convolution");
  return [options](Value is_training) { return blocks_of(options, is_training); };
}

}  // namespace sectionflow

#include "examples/models/vit.h"

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/convolution.h"
#include "graph/ops/layout.h"
#include "graph/ops/parts.h"
#include "graph/parameter.h"
#include "graph/transformer.h"

namespace sectionflow {
namespace {

constexpr float kEpsilon = 1e-6F;  // of the norms

void check_vit(const VitOptions& o) {
  SF_CHECK(o.layers > 0 && o.width > 0 && o.heads > 0 && o.patch > 0 && o.classes > 0, ArgumentError, "vit of ",
           o.layers, " layers, width ", o.width, ", ", o.heads, " heads, patches of ", o.patch, ", ", o.classes,
           " classes; wanted > 0 of each");
  SF_CHECK(o.width % o.heads == 0, ArgumentError, "vit of width ", o.width, " with ", o.heads,
           " heads; wanted a width that the heads divide");
}

Initializer narrow_normal() {
  return truncated_normal_initializer(0.02F);
}

/// images [N, H, W, 3] -> [N, 1 + patches, C]
Value embedded_patches(Value images, const VitOptions& options) {
  const Shape& shape = images.shape();
  SF_CHECK(shape[1] % options.patch == 0 && shape[2] % options.patch == 0, ShapeError, "vit: images are ", shape,
           "; wanted a height and a width that patches of ", options.patch, " divide");
  Graph& graph = images.graph();
  const std::int64_t count = shape[1] / options.patch * (shape[2] / options.patch), width = options.width;
  const Value patches = conv2d(images, {.features = width,
                                        .kernel = options.patch,
                                        .stride = options.patch,
                                        .padding = Padding::valid,
                                        .bias = true,
                                        .kernel_initializer = narrow_normal(),
                                        .name = "patches"});
  const Value rows = pad(reshape(patches, {-1, count, width}), {.before = {0, 1, 0}, .after = {0, 0, 0}});
  // The class token is added where the rows begin with zeros.
  const Value token = parameter("class_token", narrow_normal(), {graph, {1, width}});
  const Value positions = parameter("positions", narrow_normal(), {graph, {1 + count, width}});
  const Value places = positions + pad(token, {.before = {0, 0}, .after = {count, 0}});
  return rows + in_dtype(places, rows.dtype());
}

/// x [N, T, C] -> logits [N, classes]
Value classified(Value x, const VitOptions& options) {
  const Value token = reshape(slice(x, {.begin = {0, 0, 0}, .size = {-1, 1, -1}}), {-1, options.width});
  return dense(layer_norm(token, {.epsilon = kEpsilon, .name = "final_norm"}),
               {.features = options.classes, .kernel_initializer = narrow_normal(), .name = "head"});
}

}  // namespace

ImageNetwork vit(const VitOptions& options) {
  check_vit(options);
  return [options](Value is_training) {
    const MultiHeadAttentionOptions attention{.heads = options.heads, .kernel_initializer = narrow_normal()};
    const TransformerBlockOptions block{
        .attention = attention,
        .epsilon = kEpsilon,
        .drop_path = options.drop_path,
        .is_training = is_training,
        .kernel_initializer = narrow_normal(),
    };
    std::vector<ModelBlock> blocks;
    for (int layer = 0; layer < options.layers; ++layer) {
      blocks.push_back([=](Value x) {
        x = transformer_block(layer == 0 ? embedded_patches(x, options) : x, block);
        return layer + 1 == options.layers ? classified(x, options) : x;
      });
    }
    return blocks;
  };
}

}  // namespace sectionflow

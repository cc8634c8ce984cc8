#include "examples/models/inception_v3.h"

#include <algorithm>

#include "base/error.h"
#include "graph/layers.h"
#include "graph/ops/dropout.h"
#include "graph/ops/parts.h"
#include "graph/ops/pool.h"

namespace sectionflow {
namespace {

constexpr std::size_t kAuxiliaryBlock = 9;  // mixed_6e, the last of the modules at a stride of 16

class InceptionV3Builder {
 public:
  InceptionV3Builder(Value is_training, const InceptionV3Options& options)
      : is_training_(is_training), options_(options) {}

  /// x [N, H, W, 3] -> [N, H / 4, W / 4, 64]; all sizes here and below are less what paddings of zero leave out.
  Value stem_a(Value x) const {
    return max_pool(branch(x, "conv_a",
                           {{.features = 32, .stride = 2, .padding = Padding::valid},
                            {.features = 32, .padding = Padding::valid},
                            {.features = 64}}));
  }
  /// -> [N, H / 8, W / 8, 192]
  Value stem_b(Value x) const {
    return max_pool(branch(x, "conv_b", {{.features = 80, .kernel = 1}, {.features = 192, .padding = Padding::valid}}));
  }

  Value module_a(Value x, std::int64_t pool_features) const {
    return concat({branch(x, "one", {{.features = 64, .kernel = 1}}),
                   branch(x, "five", {{.features = 48, .kernel = 1}, {.features = 64, .kernel = 5}}),
                   branch(x, "three", {{.features = 64, .kernel = 1}, {.features = 96}, {.features = 96}}),
                   branch(average_pool(x), "pool", {{.features = pool_features, .kernel = 1}})},
                  -1);
  }
  /// -> [N, H / 16, W / 16, 768]
  Value module_b(Value x) const {
    return concat({branch(x, "three", {{.features = 384, .stride = 2, .padding = Padding::valid}}),
                   branch(x, "double",
                          {{.features = 64, .kernel = 1},
                           {.features = 96},
                           {.features = 96, .stride = 2, .padding = Padding::valid}}),
                   max_pool(x)},
                  -1);
  }
  Value module_c(Value x, std::int64_t hidden) const {
    return concat({branch(x, "one", {{.features = 192, .kernel = 1}}),
                   branch(x, "seven",
                          {{.features = hidden, .kernel = 1},
                           {.features = hidden, .kernel = {1, 7}},
                           {.features = 192, .kernel = {7, 1}}}),
                   branch(x, "double",
                          {{.features = hidden, .kernel = 1},
                           {.features = hidden, .kernel = {7, 1}},
                           {.features = hidden, .kernel = {1, 7}},
                           {.features = hidden, .kernel = {7, 1}},
                           {.features = 192, .kernel = {1, 7}}}),
                   branch(average_pool(x), "pool", {{.features = 192, .kernel = 1}})},
                  -1);
  }
  /// -> [N, H / 32, W / 32, 1280]
  Value module_d(Value x) const {
    return concat({branch(x, "three",
                          {{.features = 192, .kernel = 1}, {.features = 320, .stride = 2, .padding = Padding::valid}}),
                   branch(x, "seven",
                          {{.features = 192, .kernel = 1},
                           {.features = 192, .kernel = {1, 7}},
                           {.features = 192, .kernel = {7, 1}},
                           {.features = 192, .stride = 2, .padding = Padding::valid}}),
                   max_pool(x)},
                  -1);
  }
  /// -> [N, H / 32, W / 32, 2048]
  Value module_e(Value x) const {
    return concat({branch(x, "one", {{.features = 320, .kernel = 1}}),
                   row_and_column(branch(x, "three", {{.features = 384, .kernel = 1}}), "three"),
                   row_and_column(branch(x, "double", {{.features = 448, .kernel = 1}, {.features = 384}}), "double"),
                   branch(average_pool(x), "pool", {{.features = 192, .kernel = 1}})},
                  -1);
  }

  Value head(Value x) const {
    x = dropout(global_average_pool2d(x), is_training_, {.rate = options_.dropout});
    return dense(x, {.features = options_.classes, .name = "fc"});
  }
  Value auxiliary_head(Value x) const {
    x = average_pool2d(x, {.window = 5, .stride = 3, .padding = Padding::valid});
    x = branch(x, "conv", {{.features = 128, .kernel = 1}, {.features = 768, .kernel = 5, .padding = Padding::valid}});
    return dense(global_average_pool2d(x), {.features = options_.classes, .name = "fc"});
  }

 private:
  /// Convolutions one after another, each with batch norm and relu: `<name>_1`, `<name>_2` and so on.
  Value branch(Value x, const std::string& name, const std::vector<Conv2dOptions>& convolutions) const {
    int number = 0;
    for (Conv2dOptions convolution : convolutions) {
      convolution.features = std::max<std::int64_t>(1, convolution.features * options_.width / 32);
      convolution.name = text_of(name, "_", ++number);
      x = batch_norm(conv2d(x, convolution), is_training_,
                     {.decay = options_.decay, .relu = true, .name = convolution.name + "_norm"});
    }
    return x;
  }
  Value row_and_column(Value x, const std::string& name) const {
    return concat({branch(x, name + "_row", {{.features = 384, .kernel = {1, 3}}}),
                   branch(x, name + "_column", {{.features = 384, .kernel = {3, 1}}})},
                  -1);
  }
  static Value max_pool(Value x) { return max_pool2d(x, {.window = 3, .stride = 2, .padding = Padding::valid}); }
  static Value average_pool(Value x) {
    return average_pool2d(x, {.window = 3, .stride = 1, .padding = 1, .include_padding = true});
  }

  Value is_training_;
  InceptionV3Options options_;
};

struct NamedBlock {
  const char* name;
  ModelBlock build;
};

std::vector<NamedBlock> named_blocks_of(const InceptionV3Builder& builder) {
  const auto module_a = [=](std::int64_t pool) { return [=](Value x) { return builder.module_a(x, pool); }; };
  const auto module_c = [=](std::int64_t hidden) { return [=](Value x) { return builder.module_c(x, hidden); }; };
  return {{"stem_a", [=](Value x) { return builder.stem_a(x); }},
          {"stem_b", [=](Value x) { return builder.stem_b(x); }},
          {"mixed_5b", module_a(32)},
          {"mixed_5c", module_a(64)},
          {"mixed_5d", module_a(64)},
          {"mixed_6a", [=](Value x) { return builder.module_b(x); }},
          {"mixed_6b", module_c(128)},
          {"mixed_6c", module_c(160)},
          {"mixed_6d", module_c(160)},
          {"mixed_6e", module_c(192)},
          {"mixed_7a", [=](Value x) { return builder.module_d(x); }},
          {"mixed_7b", [=](Value x) { return builder.module_e(x); }},
          {"mixed_7c", [=](Value x) { return builder.head(builder.module_e(x)); }}};
}

}  // namespace

ImageNetwork inception_v3(const InceptionV3Options& options) {
  return [options](Value is_training) {
    std::vector<ModelBlock> blocks;
    for (const NamedBlock& block : named_blocks_of({is_training, options})) {
      blocks.push_back([block](Value x) {
        const auto scope = x.graph().scope(block.name);
        return block.build(x);
      });
    }
    return blocks;
  };
}

AuxiliaryHead inception_v3_auxiliary_head(const InceptionV3Options& options) {
  return {.block = kAuxiliaryBlock, .weight = 0.4F, .logits = [options](Value x, Value is_training) {
            const auto scope = x.graph().scope("auxiliary");
            return InceptionV3Builder(is_training, options).auxiliary_head(x);
          }};
}

}  // namespace sectionflow

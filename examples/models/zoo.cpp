#include "examples/models/zoo.h"

#include <algorithm>

#include "base/error.h"
#include "examples/models/bert.h"
#include "examples/models/densenet121.h"
#include "examples/models/gpt.h"
#include "examples/models/image_model.h"
#include "examples/models/inception_v3.h"
#include "examples/models/llama.h"
#include "examples/models/mnist_cnn.h"
#include "examples/models/mnist_resnet.h"
#include "examples/models/mobilenet_v2.h"
#include "examples/models/nasnet.h"
#include "examples/models/recurrent_lm.h"
#include "examples/models/resnet.h"
#include "examples/models/unet.h"
#include "examples/models/vgg.h"
#include "examples/models/vit.h"
#include "examples/models/xception.h"
#include "graph/layers.h"

namespace sectionflow {
namespace {

/// The options that a model does not know must be left alone.
struct Given {
  const char* name;
  std::int64_t value;
};
void refuse(const std::string& model, const std::vector<Given>& options) {
  for (const Given& option : options) {
    SF_CHECK(option.value == 0, ArgumentError, model, " has no option '", option.name, "'; got ", option.value);
  }
}
void refuse_text_options(const std::string& model, const ZooOptions& options) {
  refuse(model, {{"layers", options.layers},
                 {"heads", options.heads},
                 {"sequence", options.sequence},
                 {"vocabulary", options.vocabulary}});
}

ZooModel mnist_resnet(const std::string& name, const ZooOptions& options) {
  refuse(name, {{"image", options.image}, {"classes", options.classes}, {"width", options.width}});
  refuse_text_options(name, options);
  return {[options](Graph& graph, GraphSectionManager& manager) {
            return trainable_mnist_resnet(graph, manager,
                                          {.cut = options.cut,
                                           .optimizer = options.optimizer,
                                           .precision = options.precision,
                                           .ranks = options.ranks});
          },
          [](const BatchAddress& address) {
            return synthetic_images({28, 28, 1}, 10, address);
          }};
}

/// `given`, or `own` where nothing is given.
std::int64_t or_own(std::int64_t given, std::int64_t own) {
  return given == 0 ? own : given;
}

ZooModel classifier(const ZooOptions& options, const ImageNetwork& network, std::vector<std::int64_t> image,
                    std::int64_t classes) {
  const ImageModelOptions model{
      .image = image, .cut = options.cut, .optimizer = options.optimizer, .ranks = options.ranks};
  return {
      [=](Graph& graph, GraphSectionManager& manager) { return trainable_image_model(graph, manager, network, model); },
      [=](const BatchAddress& address) { return synthetic_images(image, classes, address); }};
}

/// A network's own rate of dropout, or none.
float rate_of(const ZooOptions& options, float own) {
  return options.dropout ? own : 0.0F;
}

ZooModel mnist_cnn_model(const std::string& name, const ZooOptions& options) {
  refuse_text_options(name, options);
  const std::int64_t image = or_own(options.image, 28), classes = or_own(options.classes, 10);
  const MnistCnnOptions own;
  const ImageNetwork network = mnist_cnn(
      {.classes = classes, .width = or_own(options.width, own.width), .dropout = rate_of(options, own.dropout)});
  return classifier(options, network, {image, image, 1}, classes);
}

/// A classifier of colour images, of `side` where nothing is given. `network` is called with the number of classes.
ZooModel colour_classifier(const std::string& name, const ZooOptions& options, std::int64_t side,
                           const std::function<ImageNetwork(std::int64_t classes)>& network) {
  refuse_text_options(name, options);
  const std::int64_t image = or_own(options.image, side), classes = or_own(options.classes, 1000);
  return classifier(options, network(classes), {image, image, 3}, classes);
}

ZooModel resnet_model(const std::string& name, const ZooOptions& options) {
  const ResnetOptions own{.depth = std::stoi(name.substr(std::string("resnet").size()))};
  return colour_classifier(name, options, 224, [&](std::int64_t classes) {
    return resnet({.depth = own.depth, .classes = classes, .width = or_own(options.width, own.width)});
  });
}

ZooModel vgg_model(const std::string& name, const ZooOptions& options) {
  const VggOptions own{.depth = name.starts_with("vgg19") ? 19 : 16};
  const std::int64_t width = or_own(options.width, own.width);
  return colour_classifier(name, options, 224, [&](std::int64_t classes) {
    // A narrow network has narrow dense layers too.
    return vgg({.depth = own.depth,
                .classes = classes,
                .width = width,
                .units = own.units * width / own.width,
                .batch_norm = name.ends_with("_bn"),
                .dropout = rate_of(options, own.dropout)});
  });
}

ZooModel densenet121_model(const std::string& name, const ZooOptions& options) {
  const Densenet121Options own;
  return colour_classifier(name, options, 224, [&](std::int64_t classes) {
    return densenet121({.classes = classes, .growth = or_own(options.width, own.growth)});
  });
}

ZooModel mobilenet_v2_model(const std::string& name, const ZooOptions& options) {
  const MobilenetV2Options own;
  return colour_classifier(name, options, 224, [&](std::int64_t classes) {
    return mobilenet_v2(
        {.classes = classes, .width = or_own(options.width, own.width), .dropout = rate_of(options, own.dropout)});
  });
}

ZooModel inception_v3_model(const std::string& name, const ZooOptions& options) {
  const InceptionV3Options own;
  return colour_classifier(name, options, 299, [&](std::int64_t classes) {
    return inception_v3(
        {.classes = classes, .width = or_own(options.width, own.width), .dropout = rate_of(options, own.dropout)});
  });
}

ZooModel xception_model(const std::string& name, const ZooOptions& options) {
  const XceptionOptions own;
  return colour_classifier(name, options, 299, [&](std::int64_t classes) {
    return xception({.classes = classes, .width = or_own(options.width, own.width)});
  });
}

ZooModel nasnet_mobile_model(const std::string& name, const ZooOptions& options) {
  const NasnetOptions own;
  return colour_classifier(name, options, 224, [&](std::int64_t classes) {
    return nasnet({.classes = classes, .width = or_own(options.width, own.width)});
  });
}

ZooModel unet_model(const std::string& name, const ZooOptions& options) {
  refuse_text_options(name, options);
  const UnetOptions own;
  const int dimensions = name == "unet3d" ? 3 : 2;
  const std::int64_t size = or_own(options.image, dimensions == 2 ? 256 : 64);
  const std::int64_t classes = or_own(options.classes, own.classes);
  std::vector<std::int64_t> image(static_cast<std::size_t>(dimensions), size);
  image.push_back(dimensions == 2 ? 3 : 1);
  const ImageNetwork network =
      unet({.dimensions = dimensions,
            .classes = classes,
            .width = or_own(options.width, own.width),
            .up_sampling = name == "unet_resize" ? UpSampling::resize : UpSampling::transposed_convolution});
  const ImageModelOptions model{.image = image,
                                .labels_per_pixel = true,
                                .cut = options.cut,
                                .optimizer = options.optimizer,
                                .ranks = options.ranks};
  return {
      [=](Graph& graph, GraphSectionManager& manager) { return trainable_image_model(graph, manager, network, model); },
      [=](const BatchAddress& address) { return synthetic_pixels(image, classes, address); }};
}

ZooModel gpt_model(const std::string& name, const ZooOptions& options) {
  refuse(name, {{"image", options.image}, {"classes", options.classes}});
  GptOptions gpt{
      .cut = options.cut, .optimizer = options.optimizer, .precision = options.precision, .ranks = options.ranks};
  gpt.layers = static_cast<int>(or_own(options.layers, gpt.layers));
  gpt.width = or_own(options.width, gpt.width);
  gpt.heads = or_own(options.heads, gpt.heads);
  gpt.sequence = or_own(options.sequence, gpt.sequence);
  gpt.vocabulary = or_own(options.vocabulary, gpt.vocabulary);
  return {[=](Graph& graph, GraphSectionManager& manager) {
            const Gpt net = build_gpt(graph, manager, gpt);
            return TrainableModel{
                net.loss,
                [net](const Batch& batch) {
                  return Feeds{{net.tokens, batch.images}, {net.targets, batch.labels}, {net.is_training, true}};
                },
                net.logits};
          },
          [=](const BatchAddress& address) { return synthetic_tokens(gpt.sequence, gpt.vocabulary, address); }};
}

ZooModel vit_model(const std::string& name, const ZooOptions& options) {
  refuse(name, {{"sequence", options.sequence}, {"vocabulary", options.vocabulary}});
  const std::int64_t image = or_own(options.image, 224), classes = or_own(options.classes, 1000);
  VitOptions own{.classes = classes};
  own.layers = static_cast<int>(or_own(options.layers, own.layers));
  own.width = or_own(options.width, own.width);
  own.heads = or_own(options.heads, own.heads);
  // Whether heads divide the width is checked where it is built, as those of gpt and bert are.
  const ImageNetwork network = [own](Value is_training) { return vit(own)(is_training); };
  return classifier(options, network, {image, image, 3}, classes);
}

ZooModel bert_model(const std::string& name, const ZooOptions& options) {
  refuse(name, {{"image", options.image}, {"classes", options.classes}});
  BertOptions bert{.pairs = false, .cut = options.cut, .optimizer = options.optimizer, .ranks = options.ranks};
  bert.layers = static_cast<int>(or_own(options.layers, bert.layers));
  bert.width = or_own(options.width, bert.width);
  bert.heads = or_own(options.heads, bert.heads);
  bert.sequence = or_own(options.sequence, bert.sequence);
  bert.positions = std::max(bert.positions, bert.sequence);
  bert.vocabulary = or_own(options.vocabulary, bert.vocabulary);
  return {
      [=](Graph& graph, GraphSectionManager& manager) {
        const Bert net = build_bert(graph, manager, bert);
        return TrainableModel{
            net.loss,
            [net](const Batch& batch) {
              return Feeds{{net.tokens, batch.images}, {net.labels, batch.labels}, {net.is_training, true}};
            },
            net.logits};
      },
      [=](const BatchAddress& address) { return synthetic_masked_tokens(bert.sequence, bert.vocabulary, address); }};
}

ZooModel llama_model(const std::string& name, const ZooOptions& options) {
  refuse(name, {{"image", options.image}, {"classes", options.classes}});
  LlamaOptions llama{.cut = options.cut, .optimizer = options.optimizer, .ranks = options.ranks};
  llama.layers = static_cast<int>(or_own(options.layers, llama.layers));
  // Other sizes have the proportions of its own: gated units by the width, keys and values by the heads.
  llama.hidden = llama.hidden * or_own(options.width, llama.width) / llama.width;
  llama.width = or_own(options.width, llama.width);
  llama.heads = or_own(options.heads, llama.heads);
  llama.key_value_heads = llama.heads % 8 == 0 ? llama.heads / 8 : 1;
  llama.sequence = or_own(options.sequence, llama.sequence);
  llama.vocabulary = or_own(options.vocabulary, llama.vocabulary);
  return {[=](Graph& graph, GraphSectionManager& manager) {
            const Llama net = build_llama(graph, manager, llama);
            return TrainableModel{net.loss,
                                  [net](const Batch& batch) {
                                    return Feeds{{net.tokens, batch.images}, {net.targets, batch.labels}};
                                  },
                                  net.logits};
          },
          [=](const BatchAddress& address) { return synthetic_tokens(llama.sequence, llama.vocabulary, address); }};
}

ZooModel recurrent_lm_model(const std::string& name, const ZooOptions& options) {
  refuse(name, {{"image", options.image}, {"classes", options.classes}, {"heads", options.heads}});
  RecurrentLmOptions lm{.cell = name == "gru_lm" ? RecurrentCell::gru : RecurrentCell::lstm,
                        .cut = options.cut,
                        .optimizer = options.optimizer,
                        .ranks = options.ranks};
  lm.layers = static_cast<int>(or_own(options.layers, lm.layers));
  lm.width = or_own(options.width, lm.width);
  lm.sequence = or_own(options.sequence, lm.sequence);
  lm.vocabulary = or_own(options.vocabulary, lm.vocabulary);
  return {[=](Graph& graph, GraphSectionManager& manager) {
            const RecurrentLm net = build_recurrent_lm(graph, manager, lm);
            return TrainableModel{
                .loss = net.loss,
                .feeds =
                    [net](const Batch& batch) {
                      return Feeds{{net.tokens, batch.images}, {net.targets, batch.labels}, {net.is_training, true}};
                    },
                .classes = lm.vocabulary};
          },
          [=](const BatchAddress& address) { return synthetic_tokens(lm.sequence, lm.vocabulary, address); }};
}

using MakeModel = ZooModel (*)(const std::string& name, const ZooOptions&);
struct Entry {
  const char* name;
  MakeModel make;
};
constexpr Entry kZoo[] = {
    {"mnist_cnn", mnist_cnn_model},
    {"mnist_resnet", mnist_resnet},
    {"resnet18", resnet_model},
    {"resnet34", resnet_model},
    {"resnet50", resnet_model},
    {"resnet101", resnet_model},
    {"resnet152", resnet_model},
    {"vgg16", vgg_model},
    {"vgg16_bn", vgg_model},
    {"vgg19", vgg_model},
    {"vgg19_bn", vgg_model},
    {"densenet121", densenet121_model},
    {"gpt", gpt_model},
    {"llama", llama_model},
    {"vit_small", vit_model},
    {"bert_base", bert_model},
    {"lstm_lm", recurrent_lm_model},
    {"gru_lm", recurrent_lm_model},
    {"mobilenet_v2", mobilenet_v2_model},
    {"inception_v3", inception_v3_model},
    {"xception", xception_model},
    {"nasnet_mobile", nasnet_mobile_model},
    {"unet", unet_model},
    {"unet_resize", unet_model},
    {"unet3d", unet_model},
};

}  // namespace

ZooModel zoo_model(const std::string& name, const ZooOptions& options) {
  for (const Entry& entry : kZoo) {
    if (name != entry.name) continue;
    ZooModel model = entry.make(name, options);
    model.build = [build = std::move(model.build), dtype = options.precision](Graph& graph,
                                                                              GraphSectionManager& manager) {
      const MixedPrecision precision(graph, dtype);
      return build(graph, manager);
    };
    return model;
  }
  throw ArgumentError(text_of("'", name, "' is no model; try one of: ", [] {
    std::string all;
    for (const std::string& each : zoo_names()) all += (all.empty() ? "" : ", ") + each;
    return all;
  }()));
}

std::vector<std::string> zoo_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kZoo) names.emplace_back(entry.name);
  return names;
}

std::int64_t num_parameters(const Graph& graph) {
  std::int64_t count = 0;
  for (Value variable : graph.values(kTrainableVariables)) count += variable.shape().num_elements();
  return count;
}

}  // namespace sectionflow

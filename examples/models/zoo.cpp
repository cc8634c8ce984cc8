#include "examples/models/zoo.h"

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "examples/models/image_model.h"
#include "examples/models/mnist_resnet.h"

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
            return trainable_mnist_resnet(graph, manager, {.cut = options.cut, .optimizer = options.optimizer});
          },
          [](const BatchAddress& address) {
            return synthetic_images({28, 28, 1}, 10, address);
          }};
}

using MakeModel = ZooModel (*)(const std::string& name, const ZooOptions&);
struct Entry {
  const char* name;
  MakeModel make;
};
constexpr Entry kZoo[] = {
    {"mnist_resnet", mnist_resnet},
};

}  // namespace

ZooModel zoo_model(const std::string& name, const ZooOptions& options) {
  for (const Entry& entry : kZoo) {
    if (name == entry.name) return entry.make(name, options);
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

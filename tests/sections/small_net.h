#pragma once

#include <map>

#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/identities.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "tests/support/training_case.h"

namespace sectionflow::testing {

/// Small images of five classes.
struct SmallInputs {
  explicit SmallInputs(Graph& graph)
      : images(placeholder(graph, "images", {kDynamic, 8, 8, 3})),
        labels(placeholder(graph, "labels", {kDynamic}, Dtype::i32)),
        is_training(placeholder(graph, "is_training", {}, Dtype::boolean)) {}

  /// Another random batch a step.
  std::function<Feeds(std::int64_t, FeedStore&)> random_feeds(bool training = true) const {
    return [in = *this, training](std::int64_t step, FeedStore& store) {
      store.reserve(2);
      store.push_back(random_images({4, 8, 8, 3}, 3, step));
      store.push_back(random_classes(4, 5, 3, step));
      return Feeds{{in.images, store[0]}, {in.labels, store[1]}, {in.is_training, training}};
    };
  }

  Value images, labels, is_training;
};

/// Three sections of convolution, batch norm and relu, and a fourth with the loss.
struct SmallNet : SmallInputs {
  /// `own_options`: of sections that have some.
  explicit SmallNet(Graph& graph, GraphSectionManager& manager, const std::map<int, SectionOptions>& own_options = {})
      : SmallInputs(graph) {
    const auto open = [&](int index) {
      const auto own = own_options.find(index);
      return own == own_options.end() ? manager.new_section() : manager.new_section("", own->second);
    };
    Value x = images;
    for (int k = 0; k < 3; ++k) {
      auto section = open(k);
      convolved.push_back(conv2d(x, {.features = 4}));
      // A detour that only leads to what is computed from it.
      x = relu(batch_norm(convolved.back(), is_training, {.decay = 0.9F}) * 1.5F);
      outputs.push_back(x);
    }
    auto section = open(3);
    logits = dense(reduce_mean(x, {.axes = {1, 2}}), {.features = 5});
    loss = mean(softmax_cross_entropy(logits, labels));
  }

  Feeds feeds() const { return {{images, x}, {labels, y}, {is_training, true}}; }
  FeedTypes types(std::int64_t batch) const {
    return {{images, Shape{batch, 8, 8, 3}}, {labels, Shape{batch}}, {is_training, true}};
  }

  Value logits, loss;
  std::vector<Value> convolved, outputs;  // one a section
  HostTensor x = random_images({6, 8, 8, 3}, 3, 0);
  HostTensor y = random_classes(6, 5, 3, 0);
};

/// The kernel of the layer of this name.
inline Value kernel_of(const Graph& graph, std::string_view layer) {
  return graph.find(text_of(layer, "/kernel")).output();
}

/// A small net that is ready to train, with a session.
struct SmallTraining {
  explicit SmallTraining(SessionOptions options = {.threads = 2, .check_schedules = true}, SectionOptions sections = {})
      : net(graph, manager) {
    manager.add_training_ops(Adam{.learning_rate = 1e-2F}, net.loss, {.sections = std::move(sections)});
    manager.prepare_training();
    session = std::make_unique<Session>(graph, options);
    session->initialize();
  }
  TrainingState state() { return {read_variables(*session), {}}; }

  Graph graph;
  GraphSectionManager manager{graph};
  SmallNet net;
  std::unique_ptr<Session> session;
};

}  // namespace sectionflow::testing

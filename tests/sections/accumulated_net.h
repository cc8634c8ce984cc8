#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/ops/arithmetic.h"
#include "graph/ops/dropout.h"
#include "graph/ops/matmul.h"
#include "graph/ops/update.h"
#include "tests/sections/image_nets.h"

namespace sectionflow::testing {

/// Three sections with batch norm and dropout by the graph's flag, and one with the head.
struct AccumulatedNet {
  AccumulatedNet(Graph& graph, GraphSectionManager& manager)
      : images(placeholder(graph, "images", {kDynamic, 8, 8, 3})),
        labels(placeholder(graph, "labels", {kDynamic}, Dtype::i32)) {
    Value x = images;
    for (int k = 0; k < 3; ++k) {
      auto section = manager.new_section();
      x = dropout(relu(batch_norm(conv2d(x, {.features = 4}), {.decay = 0.9F})), {.rate = 0.3F});
      dropped.push_back(x);
    }
    loss = head_section(manager, x, labels);
  }

  std::function<Feeds(std::int64_t, FeedStore&)> feeds() const {
    return [in = *this](std::int64_t step, FeedStore& store) {
      store.reserve(2);
      store.push_back(random_images({kBatch, 8, 8, 3}, 11, step));
      store.push_back(random_classes(kBatch, kClasses, 11, step));
      return Feeds{{in.images, store[0]}, {in.labels, store[1]}};
    };
  }

  Value images, labels, loss;
  std::vector<Value> dropped;
};

/// Everything that may follow gradients.
inline TrainingOptions all_options(int micro_batches) {
  return {.clip_norm = 0.5F,
          .micro_batches = micro_batches,
          .skip_non_finite = true,
          .average = WeightAverageOptions{.decay = 0.9F, .start = 1, .every = 2}};
}

/// A session that trains by sections.
struct Accumulating {
  explicit Accumulating(const TrainingOptions& options, const Optimizer& optimizer = Sgd{.learning_rate = 0.1F},
                        SessionOptions session_options = {.threads = 2, .seed = 7, .check_schedules = true})
      : net(graph, manager) {
    manager.add_training_ops(optimizer, net.loss, options);
    manager.prepare_training();
    session = std::make_unique<Session>(graph, session_options);
    session->initialize();
  }
  std::vector<HostTensor> cycle(std::int64_t step, const std::vector<Value>& fetches = {}) {
    FeedStore store;
    return manager.run_full_cycle(*session, fetches, net.feeds()(step, store));
  }
  std::int64_t count(Value counter) { return session->read(counter).item<std::int64_t>(); }

  Graph graph;
  GraphSectionManager manager{graph};
  AccumulatedNet net;
  std::unique_ptr<Session> session;
};

using Variables = std::map<std::string, HostTensor>;

/// The names of variables that differ.
inline std::vector<std::string> changed_names(const Variables& a, const Variables& b) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : a) {
    if (!bitwise_equal(tensor, b.at(name))) names.push_back(name);
  }
  return names;
}

/// mean((x w)^2) of rows, by two sections.
struct ProductRows {
  explicit ProductRows(int micro_batches, const Optimizer& optimizer = Sgd{.learning_rate = 0.5F}) {
    {
      auto section = manager.new_section();
      w = variable("w", constant(graph, HostTensor::of<float>({2, 3}, {0.5F, -1, 2, 0.25F, 1, -0.5F})));
      y = matmul(x, w);
    }
    {
      auto section = manager.new_section();
      loss = reduce_mean(square(y));
    }
    manager.add_training_ops(optimizer, loss, {.micro_batches = micro_batches});
    manager.prepare_training();
    session = std::make_unique<Session>(graph, SessionOptions{.threads = 1, .check_schedules = true});
    session->initialize();
  }
  void cycle(const HostTensor& rows) { (void)manager.run_full_cycle(*session, {loss}, {{x, rows}}); }

  Graph graph;
  GraphSectionManager manager{graph};
  Value x = placeholder(graph, "x", {kDynamic, 2}), w, y, loss;
  std::unique_ptr<Session> session;
};

}  // namespace sectionflow::testing

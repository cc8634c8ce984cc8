#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/host_tensor.h"
#include "graph/graph.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "runtime/session.h"
#include "tests/support/random_graph.h"
#include "transform/inference_graph.h"
#include "transform/transform_graph.h"

namespace sectionflow::testing_support {

/// A random model with moving averages of its own, and what it gives in evaluation.
struct FrozenCase {
  explicit FrozenCase(std::uint64_t seed) : trainable({.seed = seed, .random_ops = false}) {
    const RandomModel& model = trainable.model;
    const RandomBatch batch = random_batch(model, 3, seed);
    Session session(trainable.graph, {.seed = seed});
    session.initialize();
    // Steps of training, so that averages are no longer 0 and 1.
    for (std::uint64_t step = 0; step < 3; ++step) {
      const RandomBatch each = random_batch(model, 3, seed + step);
      session.run(each.feeds(model), trainable.training);
    }
    images = batch.images.clone();
    auto [found] = session.run({model.logits}, {{model.images, images}, {model.is_training, false}});
    logits = std::move(found);
    frozen = freeze(session, {model.logits}, {.feeds = {{model.is_training, false}}});
  }
  explicit FrozenCase(FrozenCase&&) = delete;

  HostTensor of(const InferenceGraph& graph) const {
    Session session(*graph.graph);
    session.initialize();
    return std::move(session.run(graph.outputs, {{graph[trainable.model.images.name()], images}}).front());
  }

  TrainableRandomModel trainable;
  HostTensor images, logits;
  InferenceGraph frozen;
};

/// The largest difference, as a share of the largest number.
inline double relative_difference(const HostTensor& a, const HostTensor& b) {
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < a.values<float>().size(); ++i) {
    const double x = a.values<float>()[i], y = b.values<float>()[i];
    largest = std::max(largest, std::abs(x));
    difference = std::max(difference, std::abs(x - y));
  }
  return largest > 0 ? difference / largest : difference;
}

inline int count_of(const Graph& graph, const std::string& op) {
  int count = 0;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) count += graph.node(id).op().name == op ? 1 : 0;
  return count;
}

}  // namespace sectionflow::testing_support

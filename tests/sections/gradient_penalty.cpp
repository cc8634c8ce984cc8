// Losses that depend on gradients: second derivatives in sections have the bytes of the whole graph.

#include <gtest/gtest.h>

#include "autodiff/gradients.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/dropout.h"
#include "graph/ops/pool.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "tests/sections/image_nets.h"

namespace sectionflow::testing {
namespace {

/// Three sections of which each passes the gradient of the images on, and the loss of the last with a penalty on it.
TrainingNet penalised_net(Graph& graph, GraphSectionManager& manager) {
  const Inputs in(graph);
  Value x, loss, penalised;
  {
    auto section = manager.new_section();
    x = max_pool2d(conv_norm_relu(in.images, in.is_training, 4));
  }
  {
    auto section = manager.new_section();
    x = dropout(gelu(conv2d(x, {.features = 4})), in.is_training, {.rate = 0.2F});
  }
  {
    auto section = manager.new_section();
    loss = head_loss(tanh(layer_norm(x)), in.labels);
    const Value dx = gradients(loss, {in.images})[0];
    penalised = loss + reduce_sum(square(dx)) * 0.5F;
  }
  finish(manager, penalised);
  // Fetched is what a forward half knows.
  return {loss, in.feeds()};
}

TEST(GradientPenalty, OfTheImagesTrainsToTheSameBytesInSections) {
  expect_exact({"gradient penalty", penalised_net}, {.steps = 4});
}

}  // namespace
}  // namespace sectionflow::testing

// What a refused cycle is told to do.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "graph/layers.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "sections/graph_section_manager.h"

namespace sectionflow {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Two sections of a dense layer each, fed with `batch` rows.
struct TwoLayers {
  Graph graph;
  GraphSectionManager manager{graph};
  Value x = placeholder(graph, "x", {kDynamic, 64});
  Value labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
  Value first, loss;
  HostTensor rows, classes;

  TwoLayers(std::int64_t batch, BorderPolicy borders) : rows(Dtype::f32, {batch, 64}), classes(Dtype::i32, {batch}) {
    {
      auto section = manager.new_section();
      first = tanh(dense(x, {.features = 64}));
    }
    {
      auto section = manager.new_section();
      loss = mean(softmax_cross_entropy(tanh(dense(first, {.features = 64})), labels));
    }
    manager.add_training_ops(Sgd{}, loss, {.sections = {.borders = borders}});
    manager.prepare_training();
  }

  Feeds feeds() const { return {{x, rows}, {labels, classes}}; }

  BudgetError refusal(const SessionOptions& options) {
    Session session(graph, options);
    try {
      session.initialize();
      (void)manager.run_full_cycle(session, {loss}, feeds());
    } catch (const BudgetError& error) {
      return error;
    }
    throw InternalError("the cycle was not refused");
  }
};

TEST(ToldAdvice, ACycleOfOneIsNotToldToMakeTheBatchSmaller) {
  for (const std::int64_t batch : {1, 512}) {
    TwoLayers net(batch, BorderPolicy::keep);
    Session probe(net.graph, {.threads = 1});
    const FeedTypes types = {{net.x, {batch, 64}}, {net.labels, {batch}}};
    const std::size_t least = net.manager.plan(probe, {net.loss}, types).planned_peak_bytes;
    const BudgetError error = net.refusal({.device_memory = least - 1, .threads = 1});
    EXPECT_EQ(error.fact("hint").find("make the batch smaller") != std::string::npos, batch > 1) << error.what();
  }
}

TEST(ToldAdvice, TheMinimumOfABackwardHalfOfItsOwnIsNotClaimedToBeExact) {
  TwoLayers net(512, BorderPolicy::keep);
  Session probe(net.graph, {.threads = 1});
  const FeedTypes types = {{net.x, {512, 64}}, {net.labels, {512}}};
  const ProgramReport whole = net.manager.plan(probe, {net.loss}, types);
  EXPECT_TRUE(whole.minimum_is_exact);
  Session session(net.graph, {.device_memory = whole.planned_peak_bytes, .threads = 1});
  session.initialize();
  (void)net.manager.run_forward(session, {net.loss}, net.feeds());
  // Many values at once, which the forward half did not leave space for.
  std::vector<Value> made;
  for (NodeId id = 0; id <= net.loss.node().id(); ++id) {
    Node& node = net.graph.node(id);
    const bool is_made = node.group() == net.loss.node().group() && !node.output_types().empty();
    if (is_made && node.output(0).shape().rank() == 2) made.push_back(node.output(0));
  }
  ASSERT_GE(made.size(), 2U);
  try {
    (void)net.manager.run_backward(session, std::vector<std::vector<Value>>{made, made});
    FAIL() << "the backward half was not refused";
  } catch (const BudgetError& error) {
    EXPECT_THAT(error.what(), HasSubstr("minimum: device_memory of at least "));
  }
  net.manager.discard_forward(session);
}

TEST(ToldAdvice, WherePoliciesForceOffloadsMoreDeviceMemoryIsNotAdvised) {
  TwoLayers net(8, BorderPolicy::host);
  EXPECT_THAT(net.refusal({.host_memory = 100, .threads = 1}).fact("hint"),
              AllOf(HasSubstr("more host_memory"), HasSubstr("BorderPolicy::automatic"),
                    HasSubstr("make the batch smaller"), Not(HasSubstr("device"))));
}

}  // namespace
}  // namespace sectionflow

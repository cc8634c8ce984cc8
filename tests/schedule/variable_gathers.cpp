// Where variables that ranks hold in shards are gathered.

#include "schedule/variable_gathers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/nodes/shards.h"
#include "graph/ops/matmul.h"
#include "runtime/engine.h"
#include "sectionflow.h"

namespace sectionflow::gathers_tests {
namespace {

using ::testing::ElementsAre;

/// Of so many products, each in a section or all in none, a training cycle's passes and what they gather and compute:
/// "forward 0: gather 0, gather 1, product 0".
struct Products {
  explicit Products(int products) {
    Value y = x;
    for (int i = 0; i < products; ++i) {
      const auto section = manager.new_section();
      weights.push_back(variable(text_of("w", i), fill(graph, {2, 2}, 0.5F)));
      y = matmul(y, weights.back());
      outputs.push_back(y);
    }
    Value loss;
    {
      const auto section = manager.new_section();
      loss = mean(square(y));
    }
    manager.add_training_ops(Sgd{}, loss, {.ranks = 2, .distribution = VariableDistribution::sharded});
    manager.prepare_training();
  }

  std::vector<std::string> passes(bool in_sections) {
    Session session(graph, {.threads = 1, .check_schedules = true});
    if (in_sections) {
      (void)manager.plan(session, {}, {{x, Shape{3, 2}}});
    } else {
      (void)session.plan({}, {{x, Shape{3, 2}}}, {.targets = manager.training_operations()});
    }
    const Schedule& schedule = engine(session).latest_program()->schedule;
    std::vector<std::string> found;
    int pass = -1;
    for (const Step& step : schedule.steps) {
      const std::string text = text_of_step(step);
      if (text.empty()) continue;
      if (step.pass != pass) found.push_back(schedule.passes[static_cast<std::size_t>(step.pass)].text() + ":");
      pass = step.pass;
      found.back() += " " + text;
    }
    return found;
  }

  /// "gather 0", "product 0"; "" for another step.
  std::string text_of_step(const Step& step) const {
    if (step.kind != StepKind::compute) return "";
    const Node& node = graph.node(step.node);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (&node == &gathered_of(weights[i]).node()) return text_of("gather ", i);
      if (&node == &outputs[i].node()) return text_of("product ", i);
    }
    return "";
  }

  Graph graph;
  GraphSectionManager manager{graph};
  Value x = placeholder(graph, "x", {3, 2});
  std::vector<Value> weights, outputs;
};

TEST(Gathers, StandOneSectionAhead) {
  EXPECT_THAT(
      Products(3).passes(true),
      ElementsAre("forward 0: gather 0 gather 1 product 0", "forward 1: gather 2 product 1", "forward 2: product 2",
                  "backward 3: gather 2", "backward 2: gather 1", "backward 1: gather 0"));
}

TEST(Gathers, OfTheWholeGraphStandBeforeTheReaderOfTheOneBefore) {
  EXPECT_THAT(Products(3).passes(false),
              ElementsAre("whole graph: gather 0 gather 1 product 0 gather 2 product 1 product 2"));
}

}  // namespace
}  // namespace sectionflow::gathers_tests

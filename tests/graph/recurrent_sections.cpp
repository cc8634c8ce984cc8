// Recurrent layers that are cut by time train the bytes of the whole graph, in a fraction of its memory.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "autodiff/optimizers.h"
#include "graph/layers.h"
#include "graph/losses.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/dropout.h"
#include "graph/ops/layout.h"
#include "graph/ops/parts.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "graph/recurrent.h"
#include "graph/shared_variables.h"
#include "runtime/session.h"
#include "sections/graph_section_manager.h"
#include "tests/graph/trained_bytes.h"
#include "tests/support/tolerance.h"

namespace sectionflow::recurrent_sections {
namespace {

/// The steps of part `part` of x, each part of `length`.
Value steps_of_part(Value x, int part, std::int64_t length) {
  return slice(x, {.begin = {0, part * length, 0}, .size = {-1, length, -1}});
}

/// Two layers over eight steps, in four parts of two. `cut`: before which of the parts, and of what follows them, a
/// section begins, a bit each.
struct Net {
  Net(Graph& graph, GraphSectionManager& manager, unsigned cut)
      : x(placeholder(graph, "x", {kDynamic, 8, 3})), targets(placeholder(graph, "targets", {kDynamic, 8, 2})) {
    std::optional<SectionScope> section(manager.new_section());
    SharedVariables shared(graph, "layers");
    LstmState lower;
    Value upper;
    std::vector<Value> outputs;
    for (int part = 0; part < 5; ++part) {
      if ((cut >> part & 1) != 0) {
        section.reset();
        section.emplace(manager.new_section());
      }
      if (part == 4) break;
      const auto names = shared.scope();
      const LstmResult below = lstm(steps_of_part(x, part, 2), lower, {.features = 4});
      lower = below.state;
      const GruResult above = gru(dropout(below.outputs, {.rate = 0.25F}), upper, {.features = 3});
      upper = above.state;
      outputs.push_back(above.outputs);
    }
    loss = mean(squared_error(dense(concat(outputs, 1), {.features = 2}), targets));
  }
  Value x, targets, loss;
};

/// The loss of each of three steps, and then each variable.
std::vector<HostTensor> trained(unsigned cut, bool by_sections) {
  Graph graph;
  GraphSectionManager manager(graph);
  const Net net(graph, manager, cut);
  return testing_support::trained_bytes(graph, manager, net.loss, by_sections, [&](int step) {
    HostTensor x(Dtype::f32, {2, 8, 3}), targets(Dtype::f32, {2, 8, 2});
    for (int i = 0; i < 48; ++i) x.values<float>()[i] = static_cast<float>((i * 5 + step) % 7 - 3);
    for (int i = 0; i < 32; ++i) targets.values<float>()[i] = static_cast<float>((i + step) % 3 - 1);
    return Feeds{{net.x, x}, {net.targets, targets}};
  });
}

TEST(RecurrentSections, TrainTheBytesOfTheWholeGraph) {
  const std::vector<HostTensor> whole = trained(0, false);
  EXPECT_TRUE(std::isfinite(whole[2].item<float>()));
  EXPECT_NE(whole[0].item<float>(), whole[2].item<float>());
  for (const unsigned cut : {0U, 2U, 4U, 10U, 14U, 16U, 30U}) {
    const std::vector<HostTensor> cycles = trained(cut, true);
    ASSERT_EQ(cycles.size(), whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
      EXPECT_TRUE(testing_support::same_bits(cycles[i], whole[i])) << "cut " << cut << ", tensor " << i;
    }
  }
}

TEST(RecurrentSections, StepsOfACellTrainTheBytesOfTheWholeGraph) {
  const auto trained_cell = [](bool by_sections) {
    Graph graph;
    GraphSectionManager manager(graph);
    const Value x = placeholder(graph, "x", {kDynamic, 4, 3});
    SharedVariables cell(graph, "cell");
    LstmState state;
    Value memory, loss;
    for (int step = 0; step < 4; ++step) {
      auto section = manager.new_section();
      const Value now = reshape(steps_of_part(x, step, 1), {-1, 3});
      const auto names = cell.scope();
      state = lstm_cell(now, state, {.features = 4});
      memory = gru_cell(state.output, memory, {.features = 2});
      if (step == 3) loss = mean(square(memory));
    }
    manager.add_training_ops(Sgd{.learning_rate = 0.5F}, loss);
    manager.prepare_training();
    Session session(graph, {.threads = 2, .seed = 3, .check_schedules = true});
    session.initialize();
    HostTensor fed(Dtype::f32, {2, 4, 3});
    for (int i = 0; i < 24; ++i) fed.values<float>()[i] = static_cast<float>(i % 5 - 2);
    if (by_sections) {
      (void)manager.run_full_cycle(session, {loss}, {{x, fed}});
    } else {
      (void)session.run({loss}, {{x, fed}}, {.targets = manager.training_operations()});
    }
    std::vector<HostTensor> results;
    for (const Value& variable : graph.values(kVariables)) results.push_back(session.read(variable));
    return results;
  };
  const auto whole = trained_cell(false), cycles = trained_cell(true);
  ASSERT_EQ(whole.size(), 7U);  // once, not once a step
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(testing_support::same_bits(cycles[i], whole[i])) << i;
}

/// Transient bytes of a training step of an LSTM over 64 steps.
struct Peaks {
  std::size_t whole, in_sections;
};
Peaks peaks_of(std::int64_t batch, int sections) {
  Graph graph;
  GraphSectionManager manager(graph);
  const Value x = placeholder(graph, "x", {kDynamic, 64, 8}),
              labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
  SharedVariables shared(graph, "layer");
  LstmState state;
  Value loss;
  for (int part = 0; part < sections; ++part) {
    auto section = manager.new_section();
    {
      const auto names = shared.scope();
      state = lstm(steps_of_part(x, part, 64 / sections), state, {.features = 64}).state;
    }
    if (part + 1 == sections) loss = mean(cross_entropy(dense(state.output, {.features = 4}), labels));
  }
  manager.add_training_ops(Adam{}, loss);
  manager.prepare_training();
  Session session(graph, {.threads = 1});
  const FeedTypes feeds = {{x, {batch, 64, 8}}, {labels, {batch}}};
  return {.whole = session.plan({loss}, feeds, {.targets = manager.training_operations()}).transient_bytes,
          .in_sections = manager.plan(session, {loss}, feeds).transient_bytes};
}

// Of every unit a step leaves seven numbers to its gradient: four gates, the cell, its tanh and the output. Those of 64
// steps are 448. Sixteen sections keep two numbers a border, 32, and have 28 of their own: 60 of 448 is 0.13. What is
// alike in both, x and the sums of the kernels' gradients, makes the share larger, the more so for small batches.
TEST(RecurrentSections, SixteenOfThemTakeLessThanAFifthOfTheMemory) {
  const Peaks peaks = peaks_of(32, 16);
  EXPECT_LT(static_cast<double>(peaks.in_sections), 0.2 * static_cast<double>(peaks.whole));
  EXPECT_LT(static_cast<double>(peaks.in_sections), 0.2 * static_cast<double>(peaks_of(32, 1).whole));
}

}  // namespace
}  // namespace sectionflow::recurrent_sections

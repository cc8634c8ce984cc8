// Sequences of unequal length: each example gives what it gives alone, without its padding.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/ops/parts.h"
#include "graph/recurrent.h"
#include "tests/graph/blocks_case.h"

namespace sectionflow::block_case {
namespace {

constexpr std::int64_t kSteps = 4, kChannels = 3, kFeatures = 2;

/// Outputs [N, T, H], the last state's parts [N, H], and the gradient of their sums to x.
struct Ran {
  std::vector<Doubles> results;
  Doubles dx;
};

/// A layer over x, whose lengths may be invalid: its outputs, then its state.
using Layer = std::function<std::vector<Value>(Value x, Value lengths)>;

Ran run_layer(const Layer& layer, const HostTensor& x_fed, const std::vector<std::int64_t>& lengths_fed) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, x_fed.shape()[1], kChannels});
  const Value lengths = lengths_fed.empty() ? Value() : placeholder(graph, "lengths", {kDynamic}, Dtype::i64);
  std::vector<Value> fetches = layer(x, lengths);
  Value sum;
  for (const Value& result : fetches) sum = sum.valid() ? sum + reduce_sum(result) : reduce_sum(result);
  fetches.push_back(gradients(sum, {x})[0]);
  testing_support::Feeds feeds;
  feeds.emplace(x, x_fed.clone());
  if (lengths.valid()) {
    feeds.emplace(lengths, HostTensor::of<std::int64_t>({static_cast<std::int64_t>(lengths_fed.size())}, lengths_fed));
  }
  int tensor = 20;
  for (const Value& variable : graph.values(kTrainableVariables)) {
    feeds.emplace(variable, pattern_tensor(variable.type(), tensor++, 2));
  }
  const auto found = testing_support::run_kernels(fetches, feeds);
  Ran ran;
  for (std::size_t i = 0; i + 1 < found.size(); ++i) ran.results.push_back(doubles_of(found[i]));
  ran.dx = doubles_of(found.back());
  return ran;
}

/// The first steps of one example.
HostTensor first_steps(const HostTensor& x, std::int64_t example, std::int64_t steps) {
  const auto from = x.values<float>().subspan(static_cast<std::size_t>(example * kSteps * kChannels),
                                              static_cast<std::size_t>(steps * kChannels));
  return HostTensor::of<float>({1, steps, kChannels}, {from.begin(), from.end()});
}

void expect_each_as_alone(const Layer& layer) {
  const std::vector<std::int64_t> lengths = {2, kSteps, 1};
  const HostTensor x = pattern_tensor({Dtype::f32, {3, kSteps, kChannels}}, 1, 4);
  const Ran padded = run_layer(layer, x, lengths);
  for (std::size_t n = 0; n < lengths.size(); ++n) {
    const std::string example = text_of("example ", n);
    const Ran alone = run_layer(layer, first_steps(x, static_cast<std::int64_t>(n), lengths[n]), {});
    for (std::size_t i = 0; i < static_cast<std::size_t>(kSteps * kFeatures); ++i) {
      const double wanted = i < alone.results[0].size() ? alone.results[0][i] : 0;
      expect_close(padded.results[0][n * kSteps * kFeatures + i], wanted, 8, example + ", outputs");
    }
    for (std::size_t part = 1; part < alone.results.size(); ++part) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(kFeatures); ++i) {
        expect_close(padded.results[part][n * kFeatures + i], alone.results[part][i], 8, example + ", state");
      }
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(kSteps * kChannels); ++i) {
      const double wanted = i < alone.dx.size() ? alone.dx[i] : 0;
      expect_close(padded.dx[n * kSteps * kChannels + i], wanted, 16, example + ", gradient");
    }
  }
}

Layer lstm_layer(bool reverse, bool at_once = true) {
  return [=](Value x, Value lengths) {
    const LstmResult result =
        lstm(x, {.features = kFeatures, .reverse = reverse, .lengths = lengths, .inputs_at_once = at_once});
    return std::vector{result.outputs, result.state.output, result.state.cell};
  };
}
Layer gru_layer(bool reverse) {
  return [=](Value x, Value lengths) {
    const GruResult result = gru(x, {.features = kFeatures, .reverse = reverse, .lengths = lengths});
    return std::vector{result.outputs, result.state};
  };
}

TEST(RecurrentLengths, GiveEachExampleWhatItGivesAlone) {
  expect_each_as_alone(lstm_layer(false));
  expect_each_as_alone(lstm_layer(false, false));
  expect_each_as_alone(gru_layer(false));
}

TEST(RecurrentLengths, BeginReversedSequencesWithTheirLastSteps) {
  expect_each_as_alone(lstm_layer(true));
  expect_each_as_alone(gru_layer(true));
}

TEST(RecurrentLengths, OfZeroLeaveTheStateWithWhichTheLayerBegins) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, kSteps, kChannels}), state = placeholder(graph, "state", {2, kFeatures}),
              lengths = placeholder(graph, "lengths", {2}, Dtype::i32);
  const GruResult result = gru(x, state, {.features = kFeatures, .lengths = lengths});
  testing_support::Feeds feeds;
  feeds.emplace(x, pattern_tensor(x.type(), 1, 4));
  feeds.emplace(state, pattern_tensor(state.type(), 2, 4));
  feeds.emplace(lengths, HostTensor::of<std::int32_t>({2}, {0, -3}));
  for (const Value& variable : graph.values(kTrainableVariables)) {
    feeds.emplace(variable, pattern_tensor(variable.type(), 3, 2));
  }
  const auto found = testing_support::run_kernels({result.outputs, result.state}, feeds);
  EXPECT_EQ(doubles_of(found[0]), Doubles(2 * kSteps * kFeatures, 0));
  EXPECT_EQ(doubles_of(found[1]), patterns(2 * kFeatures, 2, 4));
}

TEST(RecurrentLengths, AndStatesTellHowManyExamplesThereAre) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, kSteps, kChannels}),
              lengths = placeholder(graph, "lengths", {2}, Dtype::i32),
              state = placeholder(graph, "state", {2, kFeatures}),
              step = placeholder(graph, "step", {kDynamic, kChannels});
  EXPECT_EQ(gru(x, {.features = kFeatures, .lengths = lengths, .name = "a"}).outputs.type().text(), "f32[2,4,2]");
  EXPECT_EQ(gru(x, state, {.features = kFeatures, .name = "b"}).state.type().text(), "f32[2,2]");
  EXPECT_EQ(gru_cell(step, state, {.features = kFeatures, .name = "c"}).type().text(), "f32[2,2]");
  EXPECT_EQ(lstm(x, {state, state}, {.features = kFeatures, .name = "d"}).outputs.type().text(), "f32[2,4,2]");
}

TEST(RecurrentLengths, ThatDoNotGoWithTheSequenceAreRefused) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, kSteps, kChannels}), step = placeholder(graph, "step", {2, kChannels});
  const Value three = placeholder(graph, "three", {3}, Dtype::i32), floats = placeholder(graph, "floats", {2});
  const Value two = placeholder(graph, "two", {2}, Dtype::i32);
  const std::int64_t nodes = graph.num_nodes();
  EXPECT_THROW(lstm(x, {.features = 2, .lengths = three}), ShapeError);
  EXPECT_THROW(gru(x, {.features = 2, .lengths = floats}), ArgumentError);
  EXPECT_THROW(lstm_cell(step, {}, {.features = 2, .lengths = two}), ArgumentError);
  EXPECT_EQ(graph.num_nodes(), nodes);
}

TEST(RecurrentLengths, OfOtherExamplesThanTheFedAreRefusedWhenTheyAreFed) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, kSteps, kChannels}),
              lengths = placeholder(graph, "lengths", {kDynamic}, Dtype::i32);
  const Value outputs = lstm(x, {.features = kFeatures, .lengths = lengths}).outputs;
  testing_support::Feeds feeds;
  feeds.emplace(x, pattern_tensor({Dtype::f32, {2, kSteps, kChannels}}, 1, 4));
  feeds.emplace(lengths, HostTensor::of<std::int32_t>({1}, {2}));
  for (const Value& variable : graph.values(kTrainableVariables)) {
    feeds.emplace(variable, pattern_tensor(variable.type(), 3, 2));
  }
  EXPECT_THROW((void)testing_support::run_kernels({outputs}, feeds), ShapeError);
}

}  // namespace
}  // namespace sectionflow::block_case

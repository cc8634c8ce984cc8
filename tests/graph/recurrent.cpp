// LSTM and GRU beside those of PyTorch 2.15 in double precision, with the same numbers.
#include "graph/recurrent.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "graph/ops/identities.h"
#include "graph/ops/parts.h"
#include "graph/shared_variables.h"
#include "runtime/session.h"
#include "tests/graph/blocks_case.h"

namespace sectionflow::block_case {
namespace {

std::vector<Value> parts_of(const LstmResult& result) {
  return {result.outputs, result.state.output, result.state.cell};
}
std::vector<Value> parts_of(const GruResult& result) {
  return {result.outputs, result.state};
}

const Case kRecurrentCases[] = {
    {"torch.nn.LSTM",
     {{2, 3, 3}, {2, 2}, {2, 2}},
     [](const auto& in) {
       return parts_of(lstm(in[0], {in[1], in[2]}, {.features = 2}));
     },
     {{-0.2226713432, -0.3476515903, -0.3204023002, -0.2355149015, -0.3535705837, -0.1445166741, 0.08090446279,
       0.1191398314, 0.1402336223, 0.1844337859, 0.1854144866, 0.04576474746},
      {-0.3535705837, -0.1445166741, 0.1854144866, 0.04576474746},
      {-1.100989762, -0.4100300886, 1.368735018, 0.1875479818}},
     {{0.0005845676521, 0.06514928522},
      {0.004118509486, -0.001974647753},
      {-0.08983901967, 0.06973387398},
      {-0.01718167663, -0.1360682504},
      {-0.00414290964, 0.02705031427},
      {0.07460527237, 0.01201009581}}},
    {"torch.nn.LSTM, from zeros, a step at a time",
     {{2, 3, 3}},
     [](const auto& in) { return parts_of(lstm(in[0], {.features = 2, .inputs_at_once = false})); },
     {{-0.06025888689, -0.09601720009, -0.1216955374, -0.1429725295, -0.1892503694, -0.1275401355, -0.02146580133,
       0.185598585, 0.1173670833, 0.1439833315, 0.1728910347, 0.04248189185},
      {-0.1892503694, -0.1275401355, 0.1728910347, 0.04248189185},
      {-0.4287261464, -0.3374896118, 1.219198963, 0.172395291}},
     {{0.02228570015, 0.05241436163},
      {-0.02515095448, -0.159669882},
      {0.0002168473795, -0.004335806875},
      {0.067306775, -0.03322743921}}},
    {"torch.nn.LSTM, bias=False, backward",
     {{2, 3, 3}},
     [](const auto& in) { return parts_of(lstm(in[0], {.features = 2, .bias = false, .reverse = true})); },
     {{-0.1730434922, -0.3650912604, -0.2085659915, -0.2460179431, -0.1637299982, -0.1201781595, 0.06426070987,
       0.2588287985, 0.268946517, -0.07677772094, 0.2441227657, -0.03499777724},
      {-0.1730434922, -0.3650912604, 0.06426070987, 0.2588287985},
      {-0.2941590022, -0.4723099336, 0.1812577533, 0.7729959388}},
     {{0.05092587757, -0.03940485033}, {0.003977845293, -0.1468558796}, {-0.02343928027, 0.003399450152}}},
    {"torch.nn.GRU",
     {{2, 3, 3}, {2, 2}},
     [](const auto& in) { return parts_of(gru(in[0], in[1], {.features = 2})); },
     {{0.7268947062, -1.135973769, 0.4543576981, -0.9706150563, 0.2533170226, -0.933008926, 0.6343546484, 0.532087824,
       0.6242379083, 0.7348542889, 0.6936385262, 0.4464555303},
      {0.2533170226, -0.933008926, 0.6936385262, 0.4464555303}},
     {{-0.05766084928, 0.03643269324},
      {-0.08169257769, 0.0210034466},
      {-0.1312967575, 0.2504543527},
      {-0.1245844787, -0.0104667214},
      {-0.02943114649, -0.03477331743},
      {-0.008040245247, -0.04028216591}}},
    {"torch.nn.GRU, from zeros, a step at a time",
     {{2, 3, 3}},
     [](const auto& in) { return parts_of(gru(in[0], {.features = 2, .inputs_at_once = false})); },
     {{-0.2576025511, -0.2243018763, -0.3727980229, -0.4626653305, -0.3914968835, -0.6406295864, 0.6785926878,
       0.3417433456, 0.6458684296, 0.7548157465, 0.7082484147, 0.4381431185},
      {-0.3914968835, -0.6406295864, 0.7082484147, 0.4381431185}},
     {{-0.05869695828, 0.04220836063},
      {-0.183296659, 0.1740145339},
      {-0.0924256251, 0.009912180634},
      {-0.02537549138, 0.02149957629},
      {-0.01178320815, 0.009866233214}}},
    {"torch.nn.GRU, bias=False, backward",
     {{2, 3, 3}},
     [](const auto& in) { return parts_of(gru(in[0], {.features = 2, .bias = false, .reverse = true})); },
     {{-0.5908756769, -0.5376951714, -0.4286135492, -0.4958656824, -0.2254999244, -0.2835558494, 0.7353811169,
       0.6144685408, 0.3968112316, 0.7134211197, 0.2720992635, 0.6077004614},
      {-0.5908756769, -0.5376951714, 0.7353811169, 0.6144685408}},
     {{0.0004481803123, 0.02378721116}, {0.09314912136, -0.1183697155}, {-0.02238013681, 0.006367223407}}},
};

TEST(RecurrentLayersOfPyTorch, AndTheirGradientsAreTheSame) {
  expect_all(kRecurrentCases, 16);
}

/// The numbers of an LSTM's outputs of x [2, 4, 3], and of the gradient of their sum to x: of all steps at once, or of
/// two parts of which the second begins with what `between` makes of the state of the first.
struct Halved {
  Doubles outputs, dx;
};
template <class Between>
Halved halved(bool is_whole, Between&& between) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 4, 3});
  SharedVariables shared(graph, "shared");
  const auto part = [&](Value of, LstmState state) {
    const auto names = shared.scope();
    return lstm(of, state, {.features = 2});
  };
  Value outputs;
  if (is_whole) {
    outputs = part(x, {}).outputs;
  } else {
    const std::vector<Value> parts = split(x, 2, 1);
    const LstmResult first = part(parts[0], {});
    outputs = concat({first.outputs, part(parts[1], between(first.state)).outputs}, 1);
  }
  testing_support::Feeds feeds;
  feeds.emplace(x, pattern_tensor({Dtype::f32, {2, 4, 3}}, 1, 4));
  for (const Value& variable : shared.variables()) {
    feeds.emplace(variable, pattern_tensor(variable.type(), 20 + static_cast<int>(feeds.size()), 2));
  }
  const auto found = testing_support::run_kernels({outputs, gradients(reduce_sum(outputs), {x})[0]}, feeds);
  return {doubles_of(found[0]), doubles_of(found[1])};
}

TEST(Lstm, OfTwoPartsIsThatOfTheWhole) {
  const auto as_it_is = [](LstmState state) { return state; };
  const Halved whole = halved(true, as_it_is), parts = halved(false, as_it_is);
  for (std::size_t i = 0; i < whole.outputs.size(); ++i) expect_close(parts.outputs[i], whole.outputs[i], 8, "output");
  for (std::size_t i = 0; i < whole.dx.size(); ++i) expect_close(parts.dx[i], whole.dx[i], 8, "gradient");
}

TEST(Lstm, HandsNoGradientThroughATruncatedState) {
  const Halved whole = halved(false, [](LstmState state) { return state; });
  const Halved truncated = halved(false, [](LstmState state) -> LstmState {
    state = {stop_gradient(state.output), stop_gradient(state.cell)};
    return state;
  });
  EXPECT_EQ(truncated.outputs, whole.outputs);
  for (std::size_t i = 0; i < whole.dx.size(); ++i) {
    EXPECT_EQ(truncated.dx[i] == whole.dx[i], i % 12 >= 6) << i;  // of the last two steps all are the same
  }
}

/// What a run of `y` says of a feed that it refuses; empty where it takes it.
std::string refusal_of(Value y, const Feeds& feeds) {
  Session session(y.graph(), {.threads = 1});
  session.initialize();
  try {
    (void)session.run({y}, feeds);
    return {};
  } catch (const ShapeError& error) {
    return error.message();
  }
}

TEST(RecurrentLayers, HoldFedStatesToTheRowsOfXAndToTheirWidth) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 3, 2});
  const Value h = placeholder(graph, "h", {kDynamic, kDynamic}), c = placeholder(graph, "c", {kDynamic, kDynamic});
  const Value of_lstm = lstm(x, {h, c}, {.features = 4}).outputs, of_gru = gru(x, h, {.features = 4}).outputs;
  EXPECT_EQ(of_lstm.shape(), (Shape{kDynamic, 3, 4}));
  const auto fed = [&](Shape of_h, Shape of_c) {
    return Feeds{{x, HostTensor(Dtype::f32, {5, 3, 2})},
                 {h, HostTensor(Dtype::f32, std::move(of_h))},
                 {c, HostTensor(Dtype::f32, std::move(of_c))}};
  };
  EXPECT_EQ(refusal_of(of_lstm, fed({5, 4}, {5, 4})), "");
  const auto expect_says = [](const std::string& said, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) EXPECT_NE(said.find(part), std::string::npos) << said;
  };
  expect_says(refusal_of(of_lstm, fed({1, 4}, {5, 4})), {"lstm 'lstm'", "state's output and x", "is 1 in", "5 in"});
  expect_says(refusal_of(of_lstm, fed({5, 4}, {1, 4})), {"lstm 'lstm'", "state's cell and x", "is 1 in", "5 in"});
  expect_says(refusal_of(of_lstm, fed({5, 4}, {5, 1})), {"state's cell and the layer", "is 1 in", "4 in"});
  Feeds of_state = fed({1, 4}, {5, 4});
  of_state.pop_back();
  expect_says(refusal_of(of_gru, of_state), {"gru 'gru'", "state's output and x", "is 1 in", "5 in"});
}

}  // namespace
}  // namespace sectionflow::block_case

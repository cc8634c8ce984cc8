// Convolutions of sequences, gated units and squeeze and excite beside those of PyTorch 2.15 in double precision.
#include <gtest/gtest.h>

#include <vector>

#include "graph/blocks.h"
#include "tests/graph/blocks_case.h"

namespace sectionflow::block_case {
namespace {

const Case kBlockCases[] = {
    {"torch.nn.Conv1d, padding=1",
     {{2, 5, 2}},
     [](const auto& in) { return std::vector{conv1d(in[0], {.features = 3})}; },
     {{1.3515625, -0.65625,  0.28125,   1.203125,  -0.984375, 1.1328125, -0.9375,   1.515625,  -1.2421875, 2.8125,
       -1.421875, -0.671875, -0.546875, -2.109375, 1.0859375, 2.9375,    -2.40625,  -1.40625,  -1.5703125, -1.3984375,
       1.4921875, 1.2734375, 1.328125,  1.15625,   1.171875,  -0.703125, 0.8203125, 1.1171875, -0.3828125, -2.109375}},
     {{0.2184448242, -0.3310546875}, {-0.2526855469, -0.08898925781}, {-0.171875, -0.08984375}}},
    {"torch.nn.Conv1d, stride=2, groups=2, bias=False",
     {{2, 5, 2}},
     [](const auto& in) {
       return std::vector{conv1d(
           in[0],
           {.features = 4, .kernel = 2, .stride = 2, .padding = SequencePadding::valid, .groups = 2, .bias = false})};
     },
     {{0.5390625, 1.1640625, 0.046875, -0.140625, -0.609375, -1.421875, -0.3515625, -0.1640625, 0.046875, -0.203125,
       -0.609375, 0.140625, 0.2578125, 0.3828125, 0.578125, -0.109375}},
     {{0.2064819336, 0.2843017578}, {-0.8234863281, 0.1395263672}}},
    {"torch.nn.Conv1d of what is padded in front, dilation=2",
     {{2, 5, 2}},
     [](const auto& in) {
       return std::vector{conv1d(in[0], {.features = 3, .padding = SequencePadding::causal, .dilation = 2})};
     },
     {{0.8671875,  -0.7734375, -0.1484375, 1.65625,   -0.4765625, 0.3359375, 1.0078125,  -1.4921875,
       -0.3671875, -0.578125,  1.375,      1.0625,    0.859375,   -2.125,    0.5546875,  -0.171875,
       0.484375,   0.234375,   2.203125,   -2.390625, -0.640625,  1.0078125, -0.0703125, -0.6953125,
       -0.578125,  -0.1484375, 1.4140625,  0.8046875, -1.6328125, 0.0078125}},
     {{-0.2676391602, 0.1585693359}, {-1.029052734, 0.8449707031}, {-0.171875, -0.08984375}}},
    {"torch.nn.Conv1d of what is padded in front, stride=2",
     {{2, 4, 2}},
     [](const auto& in) {
       return std::vector{conv1d(in[0], {.features = 3, .stride = 2, .padding = SequencePadding::causal})};
     },
     {{0.8671875, -0.7734375, -0.1484375, 1.203125, -0.984375, 1.1328125, 1.7578125, -1.8515625, -0.4765625, 2.8359375,
       -1.6328125, -0.4375}},
     {{0.3134155273, -0.4041137695}, {0.4903564453, -0.2216796875}, {-0.291015625, 0.078125}}},
    {"squeeze and excite",
     {{2, 2, 1, 3}},
     [](const auto& in) { return std::vector{squeeze_excite(in[0], {.squeezed = 2})}; },
     {{-0.1935632539, 0.2176607123, 1.009350592, -0.516168677, 0, 0.6211388257, -0.8418451405, -0.2345302938,
       0.2522856867, 0.7123305035, -0.4690605876, -0.1681904578}},
     {{-0.1755575271, -0.1303592219},
      {0.08954175878, -0.03794044974},
      {-0.02632153265, 0.002581589484},
      {-0.05511132862, -0.05448706399},
      {-0.04462190242, -0.04983714526}}},
    {"squeeze and excite, nchw",
     {{2, 3, 2, 1}},
     [](const auto& in) {
       return std::vector{squeeze_excite(in[0], {.activation = Activation::silu, .format = DataFormat::nchw})};
     },
     {{-0.2153551525, 0.3589252541, 0.5260063498, -0.3236962153, 0, 0.5098710482, -0.8405030148, -0.3232703903,
       0.1410090989, 0.5170333627, -0.843678442, -0.1687356884}},
     {{-0.1526189103, -0.06440523375},
      {0.01851553458, -0.01921724184},
      {-0.05314431568, 0.01518409019},
      {0.07507146951, -0.04868374945},
      {0.07416165179, -0.06750354898}}},
    {"torch.nn.functional.glu",
     {{2, 4}},
     [](const auto& in) { return std::vector{glu(in[0])}; },
     {{-0.3133063264, 0.1680883884, 0, 0.3486451353}},
     {{0.06242508405, -0.01843601139}}},
    {"a relu(b), dim=0",
     {{2, 4}},
     [](const auto& in) { return std::vector{reglu(in[0], 0)}; },
     {{0, 0.625, 0, 0}},
     {{-0.1206054688, 0.1063232422}}},
    {"a gelu(b, approximate=tanh)",
     {{2, 4}},
     [](const auto& in) { return std::vector{geglu(in[0], 1, {.approximation = Gelu::tanh})}; },
     {{-0.5775731144, -0.09925500587, 0, -0.16627885}},
     {{0.1034710018, -0.05752703499}}},
    {"a silu(b)",
     {{2, 4}},
     [](const auto& in) { return std::vector{swiglu(in[0], -2)}; },
     {{0, 0.4569116116, -0.4344262848, 0.2179032096}},
     {{-0.07834684771, 0.1041692362}}},
};

TEST(BlocksOfPyTorch, AndTheirGradientsAreTheSame) {
  expect_all(kBlockCases, 16);
}

}  // namespace
}  // namespace sectionflow::block_case

// Whatever the optimiser, training by sections gives the bytes of training the whole graph, slots included.

#include <gtest/gtest.h>

#include "tests/sections/small_net.h"
#include "tests/support/training_case.h"

namespace sectionflow::testing {
namespace {

struct Case {
  std::string name;
  Optimizer optimizer;
  friend void PrintTo(const Case& each, std::ostream* stream) { *stream << each.name; }
};

class EveryOptimizer : public ::testing::TestWithParam<Case> {};

TEST_P(EveryOptimizer, TrainsTheSameBytesInSections) {
  expect_exact({GetParam().name, [](Graph& graph, GraphSectionManager& manager) {
                  const SmallNet net(graph, manager);
                  manager.add_training_ops(GetParam().optimizer, net.loss);
                  manager.prepare_training();
                  return TrainingNet{net.loss, net.random_feeds()};
                }});
}

INSTANTIATE_TEST_SUITE_P(Cases, EveryOptimizer,
                         ::testing::Values(Case{"sgd", Sgd{.learning_rate = 0.05F}}, Case{"adam", Adam{}},
                                           Case{"momentum", Momentum{.learning_rate = 0.05F}},
                                           Case{"nesterov", Momentum{.learning_rate = 0.05F, .nesterov = true}},
                                           Case{"adagrad", Adagrad{.learning_rate = 0.05F, .initial_sum = 0.1F}},
                                           Case{"rms_prop", RmsProp{}}, Case{"adam_w", AdamW{.weight_decay = 0.1F}},
                                           Case{"lion", Lion{.weight_decay = 0.1F}}, Case{"lamb", Lamb{}},
                                           Case{"adafactor", Adafactor{}},
                                           Case{"adafactor_by_rate", Adafactor{.relative_step = false}},
                                           Case{"adam_8bit", Adam{.slots = SlotStorage::eight_bit}},
                                           Case{"adam_w_8bit", AdamW{.slots = SlotStorage::eight_bit}}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace sectionflow::testing

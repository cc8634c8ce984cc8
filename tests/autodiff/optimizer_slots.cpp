// Slots that are not like their variable.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "autodiff/optimizers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/reduce.h"
#include "tests/autodiff/weight.h"

namespace sectionflow {
namespace {

using testing_support::weight;

TEST(OptimizerSlots, HaveShapesAndTypesOfTheirOwnWhereTheyAreSmaller) {
  using Types = std::vector<std::pair<std::string, std::string>>;
  const std::vector<std::pair<Optimizer, Types>> cases = {
      {Adafactor{},
       {{"w/adafactor_rows", "f32[5,200]"},
        {"w/adafactor_columns", "f32[5,3]"},
        {"b/adafactor_squares", "f32[300]"},
        {"s/adafactor_squares", "f32[]"}}},
      {Adam{.slots = SlotStorage::eight_bit},
       {{"w/adam_m_codes", "u8[5,200,3]"},
        {"w/adam_m_scales", "f32[12]"},
        {"w/adam_root_codes", "u8[5,200,3]"},
        {"w/adam_root_scales", "f32[12]"},
        {"b/adam_m_scales", "f32[2]"},
        {"s/adam_root_scales", "f32[1]"}}},
      {AdamW{.slots = SlotStorage::eight_bit}, {{"b/adam_w_m_codes", "u8[300]"}, {"b/adam_w_root_scales", "f32[2]"}}}};
  for (const auto& [optimizer, wanted] : cases) {
    Graph graph;
    const GroupId group = graph.new_group();
    Value loss;
    {
      const auto entered = graph.enter_group(group);
      loss =
          reduce_sum(weight(graph, "w", {5, 200, 3})) + reduce_sum(weight(graph, "b", {300})) + weight(graph, "s", {});
    }
    minimize(optimizer, loss);
    for (const auto& [name, type] : wanted) {
      EXPECT_EQ(graph.find(name).output().type().text(), type) << name;
      EXPECT_EQ(graph.find(name).group(), group) << name;
    }
  }
}

}  // namespace
}  // namespace sectionflow

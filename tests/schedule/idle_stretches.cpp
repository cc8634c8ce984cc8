#include "schedule/idle_stretches.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/unary.h"
#include "runtime/engine.h"

namespace sectionflow {
namespace {

/// Hands the draft of the program for these fetches to `look`.
void with_draft(Graph& graph, const std::vector<Value>& fetches, const FeedTypes& feeds,
                const std::function<void(const InstructionList&, const Draft&)>& look) {
  Session session(graph, {.device_memory = 1 << 20, .threads = 1});
  engine(session).set_instruction_editor("look", [&](InstructionList list, PlanningTools& tools) {
    look(list, tools.draft(list));
    return list;
  });
  session.plan(fetches, feeds);
}

TEST(IdleStretches, LieBetweenTwoUsesOfABuffer) {
  Graph graph;
  const Value x = placeholder(graph, "x", {4, 4});
  const Value a = relu(x), b = relu(a), c = relu(b), y = a + c;
  with_draft(graph, {y}, {{x, Shape{4, 4}}}, [&](const InstructionList& list, const Draft& draft) {
    const auto stretches = idle_stretches(draft);
    // Only `a` waits: from its reader b, across c, to the sum.
    ASSERT_EQ(stretches.size(), 1U);
    EXPECT_EQ(stretches[0].value, a);
    EXPECT_EQ(stretches[0].bytes, 64U);
    EXPECT_EQ(list.instructions[static_cast<std::size_t>(stretches[0].begin)].node, c.node().id());
    EXPECT_EQ(list.instructions[static_cast<std::size_t>(stretches[0].end)].node, y.node().id());
    EXPECT_EQ(stretches[0].before - stretches[0].after, 2);
    const std::vector<int> instructions = instructions_of_steps(draft.schedule);
    EXPECT_EQ(instructions[static_cast<std::size_t>(stretches[0].after)] + 1, stretches[0].begin);
    EXPECT_EQ(instructions[static_cast<std::size_t>(stretches[0].before)], stretches[0].end);
    EXPECT_TRUE(std::is_sorted(instructions.begin(), instructions.end()));
  });
}

TEST(IdleStretches, AChainHasNone) {
  Graph graph;
  const Value x = placeholder(graph, "x", {4, 4});
  const Value y = relu(relu(relu(x)));
  with_draft(graph, {y}, {{x, Shape{4, 4}}},
             [](const InstructionList&, const Draft& draft) { EXPECT_TRUE(idle_stretches(draft).empty()); });
}

}  // namespace
}  // namespace sectionflow

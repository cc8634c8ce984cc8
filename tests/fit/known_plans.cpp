#include "fit/known_plans.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "runtime/engine.h"

namespace sectionflow::testing {
namespace {

/// Programs that add x to a, to b, and to both.
struct Programs {
  Graph graph;
  Value x = placeholder(graph, "x", {4});
  Value a = variable("a", fill(graph, {4}, 1));
  Value b = variable("b", fill(graph, {4}, 2));
  Value to_a = x + a, to_b = x + b, to_both = to_a + b;
  Session session{graph, {.threads = 1}};

  /// What a program is known by where variables lie like this.
  std::pair<std::string, KnownPlans::Place> place_of(Value fetch, const VariableLayout& variables) {
    std::pair<std::string, KnownPlans::Place> found;
    engine(session).set_instruction_editor("place", [&](const InstructionList& list, PlanningTools& tools) {
      const PlanningTools there(tools.graph(), 1, variables, tools.device(), tools.budgets(), tools.carrier(), 0, 0);
      const WrittenList written(list, tools.graph());
      found = {written.facts().fingerprint, KnownPlans::Place::of(written, there)};
      return list;
    });
    session.plan({fetch}, {{x, x.type()}});
    return found;
  }
  VariableLayout one_away(Value away) const {
    VariableLayout layout = both_on_device();
    layout.host_offsets[as_index(away.node().id())] = 0;
    layout.offsets[as_index(away.node().id())] = VariableLayout::kAbsent;
    layout.end_bytes = layout.host_end_bytes = 256;
    return layout;
  }
  VariableLayout both_on_device() const {
    VariableLayout layout;
    for (auto* offsets : {&layout.offsets, &layout.host_offsets, &layout.disk_offsets})
      offsets->assign(as_index(to_both.node().id()) + 1, VariableLayout::kAbsent);
    layout.offsets[as_index(a.node().id())] = 0;
    layout.offsets[as_index(b.node().id())] = 256;
    layout.end_bytes = 512;
    return layout;
  }
};

TEST(KnownPlans, AreOfTheHomesOfTheVariablesThatAProgramReads) {
  Programs programs;
  const VariableLayout here = programs.both_on_device(), a_away = programs.one_away(programs.a),
                       b_away = programs.one_away(programs.b);
  EXPECT_EQ(programs.place_of(programs.to_a, here), programs.place_of(programs.to_b, here)) << "equal programs";
  EXPECT_EQ(programs.place_of(programs.to_a, a_away), programs.place_of(programs.to_b, b_away));
  EXPECT_NE(programs.place_of(programs.to_a, a_away), programs.place_of(programs.to_b, a_away));
  EXPECT_NE(programs.place_of(programs.to_a, here), programs.place_of(programs.to_a, a_away));
  EXPECT_NE(programs.place_of(programs.to_both, a_away), programs.place_of(programs.to_both, b_away));
  EXPECT_NE(programs.place_of(programs.to_a, here), programs.place_of(programs.to_a, b_away)) << "other room for it";
}

TEST(KnownPlans, AreFoundWhereTheyWerePutAndNowhereElse) {
  Programs programs;
  const VariableLayout here = programs.both_on_device(), a_away = programs.one_away(programs.a);
  const auto [fingerprint, place] = programs.place_of(programs.to_a, here);
  const auto [same, elsewhere] = programs.place_of(programs.to_a, a_away);
  ASSERT_EQ(fingerprint, same);
  KnownPlans known;
  EXPECT_EQ(known.find(fingerprint, place), nullptr);
  known.put(fingerprint, place, {.nothing_below = 1});
  known.put(fingerprint, place, {.nothing_below = 2});
  ASSERT_NE(known.find(fingerprint, place), nullptr);
  EXPECT_EQ(known.find(fingerprint, place)->nothing_below, 2);
  EXPECT_EQ(known.find(fingerprint, elsewhere), nullptr);
  known.forget_seconds(place.budgets);
  EXPECT_EQ(known.find(fingerprint, place)->nothing_below, 0);
  known.forget(fingerprint);
  EXPECT_EQ(known.find(fingerprint, place), nullptr);
}

}  // namespace
}  // namespace sectionflow::testing

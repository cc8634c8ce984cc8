// Golden figures of the ancestor, derived from its rules for small graphs.

#include <gtest/gtest.h>

#include <array>

#include "graph/traversal.h"
#include "swap/lms_levels.h"
#include "tests/swap/lms_graphs.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using Waits = std::map<std::string, std::string>;

LmsResult edit(NamedGraph& g, int threshold, int ahead, int groupby, int sync_mode = 0) {
  return Lms({.swapout_threshold = threshold, .swapin_groupby = groupby, .swapin_ahead = ahead, .sync_mode = sync_mode})
      .run(g.graph);
}

TEST(LmsGolden, MirrorChainHasTheLevelsOfItsFormula) {
  for (const int n : {1, 4, 7}) {
    NamedGraph g;
    build_mirror_chain(g, n);
    const LmsLevels levels = lms_levels(g.graph);
    EXPECT_EQ(levels.count(), 2 * n + 2 + 1);
    for (int k = 1; k <= n; ++k) {
      const NodeId f = g.at(text_of("f", k)).node().id(), b = g.at(text_of("b", k)).node().id();
      EXPECT_EQ(levels.of(f), k - 1 + 1);
      EXPECT_EQ(levels.of(b), 2 * n + 1 - k + 1);
      EXPECT_EQ(levels.distance(f, b), 2 * (n + 1 - k));
    }
    EXPECT_EQ(levels.of(g.at("L").node().id()), n + 1);
  }
}

TEST(LmsGolden, MirrorChainByThreshold) {
  const std::map<int, int> swaps = {{1, 4}, {2, 3}, {3, 3}, {4, 2}, {5, 2}, {6, 1}, {7, 1}, {8, 0}};
  for (const auto& [threshold, count] : swaps) {
    NamedGraph g;
    build_mirror_chain(g, 4);
    const LmsResult result = edit(g, threshold, 1, 0);
    EXPECT_EQ(result.num_swap_outs, count) << threshold;
    EXPECT_EQ(result.num_swap_ins, count) << threshold;
    EXPECT_EQ(result.swap_out_bytes, 100U * static_cast<unsigned>(count));
  }
}

TEST(LmsGolden, MirrorChainByAhead) {
  const std::map<int, Waits> wanted = {
      {1, {{"b1", "b3"}, {"b2", "b4"}, {"b3", "L"}, {"b4", "L"}}},
      {2, {{"b1", "b4"}, {"b2", "L"}, {"b3", "f4"}, {"b4", "L"}}},
      {3, {{"b1", "L"}, {"b2", "f4"}, {"b3", "b4"}, {"b4", "L"}}},
      {4, {{"b1", "f4"}, {"b2", "f3"}, {"b3", "b4"}, {"b4", "L"}}},
  };
  for (const auto& [ahead, waits] : wanted) {
    NamedGraph g;
    build_mirror_chain(g, 4);
    EXPECT_EQ(edit(g, 1, ahead, 0).num_trigger_edges, 4);
    EXPECT_EQ(triggers(g), waits) << ahead;
    EXPECT_TRUE(waiting_for_swap_outs(g).empty());
  }
}

TEST(LmsGolden, MirrorChainBySyncMode) {
  const Waits in_sync = {{"b1", "b2"}, {"b2", "b3"}, {"b3", "b4"}, {"b4", "L"}};
  const Waits ahead_of_one = {{"b1", "b3"}, {"b2", "b4"}, {"b3", "L"}, {"b4", "L"}};
  const Waits outs = {{"f2", "f1"}, {"f3", "f2"}, {"f4", "f3"}, {"L", "f4"}};
  for (int mode = 0; mode <= 3; ++mode) {
    NamedGraph g;
    build_mirror_chain(g, 4);
    edit(g, 1, 1, 0, mode);
    EXPECT_EQ(triggers(g), mode >= 2 ? in_sync : ahead_of_one) << mode;
    EXPECT_EQ(waiting_for_swap_outs(g), mode % 2 == 1 ? outs : Waits()) << mode;
  }
}

TEST(LmsGolden, FanByThresholdAndGroupby) {
  const Waits four = {{"n3", "n1"}, {"n4", "n2"}, {"n8", "n6"}, {"n12", "n10"}};
  const Waits first_two = {{"n3 n4", "n1"}, {"n8", "n6"}, {"n12", "n10"}};
  const Waits all = {{"n3 n4 n8 n12", "n1"}};
  const Waits three = {{"n4", "n2"}, {"n8", "n6"}, {"n12", "n10"}};
  const Waits last_three = {{"n4 n8 n12", "n2"}};
  const Waits two = {{"n8", "n6"}, {"n12", "n10"}};
  const Waits last_two = {{"n8 n12", "n6"}};
  struct Row {
    int threshold, groupby;
    const Waits* wanted;
  };
  const std::vector<Row> rows = {{1, 0, &four},       {2, 0, &four},       {1, 1, &first_two}, {2, 1, &first_two},
                                 {1, 3, &first_two},  {2, 3, &first_two},  {1, 4, &all},       {2, 4, &all},
                                 {1, 9, &all},        {3, 0, &three},      {3, 1, &three},     {3, 3, &three},
                                 {3, 4, &last_three}, {3, 5, &last_three}, {7, 0, &two},       {7, 1, &two},
                                 {7, 3, &two},        {7, 4, &last_two},   {7, 8, &last_two}};
  for (const Row& row : rows) {
    NamedGraph g;
    build_fan(g);
    const LmsResult result = edit(g, row.threshold, 1, row.groupby);
    EXPECT_EQ(result.num_swap_outs, 1);
    EXPECT_EQ(result.num_swap_ins, static_cast<int>(row.wanted->size())) << row.threshold << " " << row.groupby;
    EXPECT_EQ(triggers(g), *row.wanted) << row.threshold << " " << row.groupby;
  }
}

LmsResult serialize(NamedGraph& g, std::vector<std::string> serialization, double by_size = 0) {
  return Lms({.swapout_threshold = 100,
              .swapin_groupby = 0,
              .swapin_ahead = 1,
              .serialization = std::move(serialization),
              .serialization_by_size = by_size})
      .run(g.graph);
}

TEST(LmsGolden, DiamondSerialized) {
  struct Row {
    std::string entry;
    int edges, levels;
  };
  for (const Row& row : {Row{"1", 2, 5}, Row{"0:", 3, 5}, Row{"0", 0, 3}, Row{"-1", 0, 3}}) {
    NamedGraph g;
    build_diamond(g);
    const LmsResult result = serialize(g, {row.entry});
    EXPECT_EQ(result.num_levels, 3);
    EXPECT_EQ(result.num_serialization_edges, row.edges) << row.entry;
    EXPECT_EQ(result.num_serialized_levels, row.levels) << row.entry;
    EXPECT_EQ(lms_levels(g.graph).count(), row.levels);
  }
}

TEST(LmsGolden, DiamondSerializedBySize) {
  const std::map<double, int> edges = {{5, 2}, {3.5, 3}, {6, 0}};
  for (const auto& [limit, count] : edges) {
    NamedGraph g;
    build_diamond(g, {16384, 16384});
    const LmsGraph view(g.graph, {});
    const LmsLevels levels = lms_levels(g.graph);
    EXPECT_EQ(level_bytes(view, levels),
              (std::vector<std::size_t>{std::size_t{1} << 30, std::size_t{6} << 30, std::size_t{4} << 30}));
    EXPECT_EQ(serialize(g, {}, limit).num_serialization_edges, count) << limit;
  }
}

// The ancestor's code takes "3:5" as Python does, without 5; its documentation promises 3, 4 and 5. The documentation
// holds here.
TEST(LmsGolden, RangesHoldBothEnds) {
  NamedGraph g;
  build_mirror_chain(g, 4);  // 11 levels; the variable's initialiser has level 1
  const LmsGraph view(g.graph, {});
  const LmsLevels levels = lms_levels(g.graph);
  const auto chosen = [&](std::vector<std::string> entries) {
    return serialized_levels({.serialization = std::move(entries)}, view, levels);
  };
  using Levels = std::vector<int>;
  EXPECT_EQ(highest_initializer_level(g.graph, levels), 1);
  EXPECT_EQ(chosen({"3:5"}), (Levels{3, 4, 5}));
  EXPECT_EQ(chosen({"3"}), (Levels{3}));
  EXPECT_EQ(chosen({" +3 "}), (Levels{3}));
  EXPECT_EQ(chosen({"-2:"}), (Levels{9, 10}));
  EXPECT_EQ(chosen({"-3:-2"}), (Levels{8, 9}));
  EXPECT_EQ(chosen({"8:100"}), (Levels{8, 9, 10}));
  EXPECT_EQ(chosen({":3"}), (Levels{2, 3}));
  EXPECT_EQ(chosen({"2:10:4"}), (Levels{2, 6, 10}));
  EXPECT_EQ(chosen({"6:2:-2"}), (Levels{2, 4, 6}));
  EXPECT_EQ(chosen({"4", "3:4", "99", "5:3"}), (Levels{3, 4}));
  EXPECT_EQ(chosen({"-1", "0", "1", "11"}), (Levels{}));
}

TEST(LmsGolden, SerializationOrdersByNumberAndChangesNoOptions) {
  NamedGraph g;
  build_diamond(g);
  const LmsOptions options{.swapout_threshold = 9,
                           .swapin_groupby = 0,
                           .swapin_ahead = 1,
                           .serialization = {"1"},
                           .serialization_by_size = 1e-9};
  Lms lms(options);
  EXPECT_EQ(lms.run(g.graph).num_serialization_edges, 3);
  EXPECT_EQ(lms.options().serialization, options.serialization);
  const auto waits = [&](const char* name) {
    std::string text;
    for (const Node* before : g.at(name).node().order_inputs()) text += g.name_of(*before);
    return text;
  };
  EXPECT_EQ(text_of(waits("x"), ",", waits("y"), ",", waits("z"), ",", waits("j")), ",x,y,z");
}

}  // namespace
}  // namespace sectionflow

#include "sections/section_dot.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/bytes.h"
#include "tests/sections/small_net.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

/// Quotes closed, braces in pairs outside of quotes, every line whole; and names that arrows lead to are declared.
void expect_sound(const std::string& dot) {
  int braces = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < dot.size(); ++i) {
    if (quoted && dot[i] == '\\') {
      ++i;
    } else if (dot[i] == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      braces += dot[i] == '{' ? 1 : dot[i] == '}' ? -1 : 0;
      EXPECT_GE(braces, 0);
    }
  }
  EXPECT_FALSE(quoted);
  EXPECT_EQ(braces, 0);
  std::set<std::string> declared, used;
  std::istringstream lines(dot);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first, second, third;
    words >> first >> second >> third;
    if (second.starts_with("[")) declared.insert(first);
    if (second != "->") continue;
    if (third.back() == ';') third.pop_back();
    used.insert({first, third});
  }
  EXPECT_TRUE(std::includes(declared.begin(), declared.end(), used.begin(), used.end()));
  EXPECT_FALSE(declared.empty());
}

TEST(SectionsDot, HasAClusterASectionAndEveryBorderTensorWithItsBytes) {
  SmallTraining t;
  const std::string dot = sections_dot(t.manager, t.net.types(6));
  expect_sound(dot);
  EXPECT_EQ(count_of(dot, "subgraph cluster_"), t.manager.sections().size());
  std::set<std::string> borders;
  for (const auto& section : t.manager.sections()) {
    EXPECT_THAT(dot, HasSubstr(text_of("label=\"section ", section->index())));
    EXPECT_EQ(count_of(dot, text_of("  backward", section->index(), " [")), 1U);
    for (const auto* values : {&section->tensors_to_feed(), &section->tensors_to_cache()}) {
      for (const Value& value : *values) borders.insert(text_of("\"#fff3d6\", label=\"", value.name(), "\\n"));
    }
    for (const Operation& operation : section->operations()) {
      EXPECT_EQ(count_of(dot, text_of("    n", operation.node().id(), " [shape=box")), 1U);
    }
  }
  EXPECT_GE(borders.size(), 5U);
  for (const std::string& border : borders) EXPECT_EQ(count_of(dot, border), 1U) << border;
  EXPECT_EQ(count_of(dot, "shape=note"), borders.size());
  // What leaves section 0 is read in section 1: f32[6,8,8,4].
  EXPECT_THAT(dot, HasSubstr(text_of(t.net.outputs[0].name(), "\\nf32[6,8,8,4]\\n", bytes_text(6 * 8 * 8 * 4 * 4))));
}

TEST(SectionsDot, WithoutFeedsLeavesOutWhatTheyDecide) {
  SmallTraining t;
  const std::string dot = sections_dot(t.manager);
  expect_sound(dot);
  EXPECT_THAT(dot, AllOf(HasSubstr(text_of(t.net.outputs[0].name(), "\\nf32[?,8,8,4]\"")), Not(HasSubstr("[6,"))));
}

TEST(SectionsDot, MayShowBoxesAloneAndTheForwardPassAlone) {
  SmallTraining t;
  const std::string boxes = sections_dot(t.manager, t.net.types(6), {.operations = false});
  expect_sound(boxes);
  EXPECT_EQ(count_of(boxes, " operations\""), t.manager.sections().size());
  EXPECT_EQ(count_of(boxes, "\\n" + t.net.loss.name()), 0U);
  const std::string forward = sections_dot(t.manager, t.net.types(6), {.backward = false});
  expect_sound(forward);
  EXPECT_EQ(count_of(forward, "backward"), 0U);
  EXPECT_EQ(count_of(forward, "dashed"), 0U);
  EXPECT_LT(count_of(forward, "shape=note"), count_of(boxes, "shape=note"));
}

TEST(SectionsDot, OddNamesDoNotEndTheirQuotes) {
  Graph graph;
  GraphSectionManager manager(graph);
  Value x = placeholder(graph, "in \"quotes\" \\ {and} -> \xff\nbelow", {2, 4});
  for (const std::string name : {"\"", "}\n{", "\\", ""}) {
    auto section = manager.new_section(name);
    x = dense(x, {.features = 3});
  }
  manager.add_training_ops(Sgd{.learning_rate = 0.1F}, mean(x));
  manager.prepare_training();
  const std::string dot = sections_dot(manager, {{graph.node(0).output(), Shape{2, 4}}});
  expect_sound(dot);
  EXPECT_EQ(count_of(dot, "\xff"), 0U);
}

TEST(SectionsDot, EmptySectionsAreBoxes) {
  Graph graph;
  GraphSectionManager manager(graph);
  const Value x = placeholder(graph, "x", {2, 4});
  Value y;
  {
    auto section = manager.new_section();
    y = dense(x, {.features = 3});
  }
  { auto section = manager.new_section("nothing"); }
  manager.add_training_ops(Sgd{.learning_rate = 0.1F}, mean(y));
  manager.prepare_training();
  expect_sound(sections_dot(manager));
  EXPECT_THAT(sections_dot(manager), HasSubstr("0 operations"));
}

TEST(SectionsDot, WhatIsNotPreparedIsRefused) {
  Graph graph;
  GraphSectionManager manager(graph);
  EXPECT_THAT(whole_error_text<ArgumentError>([&] { (void)sections_dot(manager); }),
              AllOf(HasSubstr("SF-E205"), HasSubstr("section_dot.cpp")));
}

TEST(SectionsDot, FilesAppearWholeOrNotAtAll) {
  SmallTraining t;
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "sections.dot").string();
  write_sections_dot(path, t.manager, t.net.types(6));
  EXPECT_EQ(bytes_of_file(path), sections_dot(t.manager, t.net.types(6)));
  EXPECT_THROW(write_sections_dot((folder.path() / "no" / "x.dot").string(), t.manager), DataError);
  // Graphviz reads it, where it is installed.
  if (std::system("dot -V 2>/dev/null") == 0) {
    EXPECT_EQ(std::system(text_of("dot -Tplain '", path, "' >'", path, ".plain'").c_str()), 0);
  }
}

}  // namespace
}  // namespace sectionflow::testing

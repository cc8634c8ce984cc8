// docs/reference.md has all that a graph is built of, and nothing else.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "base/error.h"
#include "tests/house/source_tree.h"

namespace sectionflow::house {
namespace {

/// Names by the header that declares them.
using NamesOfHeaders = std::map<std::string, std::set<std::string>>;

bool is_of_graph(const std::string& header) {
  static const std::set<std::string> others = {"graph/einsum.h",      "graph/functions.h",   "graph/layers.h",
                                               "graph/losses.h",      "graph/metrics.h",     "graph/index_functions.h",
                                               "graph/initializer.h", "graph/parameter.h",   "graph/blocks.h",
                                               "graph/transformer.h", "graph/recurrent.h",   "autodiff/optimizers.h",
                                               "autodiff/updates.h",  "autodiff/gradients.h"};
  return header.starts_with("graph/ops/") || others.contains(header);
}

/// The functions that a header declares and that give a part of a graph; those that gradients alone call are left out.
std::set<std::string> functions_of(const std::string& text) {
  static const std::regex declared(
      R"(^(?:inline )?(?:Value|Operation|std::vector<(?:Value|Operation|GradientAndVariable)>|Initializer|Updates|ClippedGradients|BatchNormResult|LstmState|LstmResult|GruResult|TopK) (\w+)\(.*)");
  std::set<std::string> names;
  for (const std::string& line : lines_of(text)) {
    std::smatch match;
    if (!std::regex_match(line, match, declared)) continue;
    const std::string name = match[1];
    if (!name.ends_with("_grad") && !name.starts_with("operator")) names.insert(name);
  }
  return names;
}

/// The classes of a header that are a trainer's callbacks or sources, and the optimizers.
std::set<std::string> classes_of(const std::string& text) {
  static const std::regex derived(R"(^class (\w+) final : public (?:Callback|BatchSource) \{.*)"),
      optimizers(R"(^using Optimizer = std::variant<(.*)>;)"), word(R"(\w+)");
  std::set<std::string> names;
  for (const std::string& line : lines_of(text)) {
    std::smatch match;
    if (std::regex_match(line, match, derived)) names.insert(match[1]);
    if (!std::regex_match(line, match, optimizers)) continue;
    const std::string list = match[1];
    for (std::sregex_iterator name(list.begin(), list.end(), word), end; name != end; ++name) names.insert(name->str());
  }
  return names;
}

NamesOfHeaders names_of_users() {
  static const std::regex include(R"re(#include "([^"]+)")re");
  NamesOfHeaders names;
  for (const std::string& line : lines_of(text_of_file("sectionflow.h"))) {
    std::smatch match;
    if (!std::regex_match(line, match, include)) continue;
    const std::string header = match[1], text = text_of_file(header);
    if (is_of_graph(header)) names[header].merge(functions_of(text));
    names[header].merge(classes_of(text));
  }
  names["graph/initializer.h"] = functions_of(text_of_file("graph/initializer.h"));
  return names;
}

/// What stands between backticks.
std::set<std::string> quoted_in(const std::string& text) {
  static const std::regex quoted("`([^`]+)`");
  std::set<std::string> names;
  for (std::sregex_iterator name(text.begin(), text.end(), quoted), end; name != end; ++name) names.insert((*name)[1]);
  return names;
}

/// Of each row of the page's tables the names in its first cell, by the header in its last one.
NamesOfHeaders names_of_page(const std::string& page) {
  NamesOfHeaders names;
  for (const std::string& line : lines_of(page)) {
    if (!line.starts_with("| `")) continue;
    const std::set<std::string> headers = quoted_in(line.substr(line.rfind('|', line.size() - 2)));
    for (const std::string& header : headers) names[header].merge(quoted_in(line.substr(0, line.find('|', 1))));
  }
  return names;
}

Texts missing(const NamesOfHeaders& wanted, const NamesOfHeaders& there, const std::string& what) {
  Texts complaints;
  for (const auto& [header, names] : wanted) {
    const auto found = there.find(header);
    for (const std::string& name : names) {
      if (found == there.end() || !found->second.contains(name))
        complaints.push_back(text_of(header, ": ", what, name));
    }
  }
  return complaints;
}

TEST(Reference, ReadsDeclarationsAndRows) {
  EXPECT_EQ(functions_of("Value relu(Value x);\nValue relu_grad(Value x);\n  Value inner(int);\nbool is_x(Value x);\n"),
            (std::set<std::string>{"relu"}));
  EXPECT_EQ(classes_of("class A final : public Callback {\nusing Optimizer = std::variant<Sgd, Adam>;\nclass B {\n"),
            (std::set<std::string>{"A", "Adam", "Sgd"}));
  EXPECT_EQ(names_of_page("| a | b |\n| `x`, `y` | `z` | `h.h` |\n"), (NamesOfHeaders{{"h.h", {"x", "y"}}}));
  EXPECT_EQ(missing({{"h.h", {"x"}}}, {{"h.h", {"y"}}}, "lacks "), (Texts{"h.h: lacks x"}));
}

TEST(Reference, HasAllThatAGraphIsBuiltOf) {
  const NamesOfHeaders declared = names_of_users(), named = names_of_page(text_of_file("docs/reference.md"));
  EXPECT_GE(declared.at("graph/ops/unary.h").size(), 12U);
  EXPECT_EQ(missing(declared, named, "the page lacks "), kNone);
}

TEST(Reference, NamesNothingThatItsHeaderDoesNotHave) {
  for (const auto& [header, names] : names_of_page(text_of_file("docs/reference.md"))) {
    const std::string text = text_of_file(header);
    EXPECT_FALSE(text.empty()) << header;
    for (const std::string& name : names) {
      EXPECT_TRUE(std::regex_search(text, std::regex("\\b" + name + "\\b"))) << header << " has no " << name;
    }
  }
}

}  // namespace
}  // namespace sectionflow::house

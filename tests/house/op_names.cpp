// What an op is stands in its definition: nobody else asks for its name to find out.

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/op_registry.h"
#include "tests/house/source_tree.h"

namespace sectionflow::house {
namespace {

/// A line that may compare the name of an op.
struct Exception {
  std::string path, text;
};

const std::vector<Exception>& exceptions() {
  static const std::vector<Exception> allowed = {
      // A gradient refuses statistics that are not the outputs of its own op, and of no other that is like it.
      {"autodiff/compose.cpp", "origin.op().name == forward"},
      // That a variable gets its initial value by an "assign", and a shard by an "assign_shard", is part of the file
      // format.
      {"graph/graph_file.cpp", "assign.op().name != (ranks > 0 ? \"assign_shard\" : \"assign\")"},
      // Lms takes ops by name from its users, and leaves out the batch norms of the other mode as its ancestor does.
      {"swap/lms_graph.cpp", "node.op().name.starts_with(\"batch_norm\")"},
  };
  return allowed;
}

std::set<std::string> names_of_ops() {
  std::set<std::string> names;
  for (const auto& [name, definition] : op_registry().all()) names.insert(name);
  return names;
}

bool is_library(const SourceFile& file) {
  static const std::set<std::string> users = {"bench", "examples", "tools", "tests"};
  return !users.contains(file.folder());
}

/// Whether a line compares the name of an op, or gives it another name under which it would be compared.
bool asks_for_name(const std::string& line) {
  static const std::regex compared(R"(\bop_?(\(\))?(\.|->)name\s*([!=]=|\.(starts_with|ends_with|r?find|compare)\b))"),
      compared_with(R"([!=]=\s*[\w.()>:-]*\bop_?(\(\))?(\.|->)name\b)"),
      renamed(R"(=\s*[\w.()>:-]*\bop_?\(\)(\.|->)name;)");
  return std::regex_search(line, compared) || std::regex_search(line, compared_with) ||
         std::regex_search(line, renamed);
}

/// Whether a line compares something with the name of one of these ops.
bool compares_with_one_of(const std::set<std::string>& ops, const std::string& line) {
  static const std::regex literal(R"re([!=]=\s*"(\w+)"|"(\w+)"\s*[!=]=)re");
  const std::sregex_iterator end;
  return std::any_of(std::sregex_iterator(line.begin(), line.end(), literal), end,
                     [&](const std::smatch& match) { return ops.contains(match[1].matched ? match[1] : match[2]); });
}

/// Lines of the library that tell ops apart by their names, and exceptions that no line needs. Where an op is
/// defined its name is a word like others.
Texts compared_op_names(const Files& files, const std::set<std::string>& ops, const std::vector<Exception>& allowed) {
  Texts complaints;
  std::vector<bool> needed(allowed.size(), false);
  for (const SourceFile& file : files) {
    if (!is_library(file)) continue;
    for (const std::string& line : lines_of(file.text)) {
      const bool defines_ops = file.path.starts_with("graph/ops/");
      if (!asks_for_name(line) && (defines_ops || !compares_with_one_of(ops, line))) continue;
      const auto exception = std::find_if(allowed.begin(), allowed.end(), [&](const Exception& one) {
        return one.path == file.path && line.find(one.text) != std::string::npos;
      });
      if (exception == allowed.end()) {
        complaints.push_back(text_of(file.path, " compares the name of an op; wanted a field of OpDef: ", line));
      } else {
        needed[static_cast<std::size_t>(exception - allowed.begin())] = true;
      }
    }
  }
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    if (!needed[i]) complaints.push_back(text_of(allowed[i].path, " needs no exception for ", allowed[i].text));
  }
  return complaints;
}

TEST(OpNames, ThatAreComparedAreFlagged) {
  const auto complaints = [](const std::string& path, const std::string& line) {
    return compared_op_names({{path, line}}, {"print"}, {}).size();
  };
  for (const std::string line :
       {"if (node.op().name == \"variable\") return;", "const bool is_sum = op->name != kSum;",
        "if (op.name.starts_with(\"conv\")) return 2;", "return wanted == graph.node(id).op().name;",
        "const std::string& op = node.op().name;"}) {
    EXPECT_EQ(complaints("runtime/a.cpp", line), 1U) << line;
    EXPECT_EQ(complaints("graph/ops/a.cpp", line), 1U) << line;
    EXPECT_EQ(complaints("tests/runtime/a.cpp", line), 0U) << line;
  }
  for (const std::string line : {"if (name == \"print\") return;", "return \"print\" != op;"}) {
    EXPECT_EQ(complaints("swap/a.cpp", line), 1U) << line;
    EXPECT_EQ(complaints("graph/ops/print.cpp", line), 0U) << line;
  }
  for (const std::string line : {"text_of(\"made by \", node.op().name, \"; wanted\")", "registry.find(node.op().name)",
                                 "const std::string name = forward.op().name + \"_grad\";",
                                 "if (kind == \"whole\") return;", "names.push_back(node.op().name);"}) {
    EXPECT_EQ(complaints("runtime/a.cpp", line), 0U) << line;
  }
}

TEST(OpNames, ThatMayBeComparedAreOfOneFileAndNeeded) {
  const Files files = {{"swap/a.cpp", "return op.name == kOut;\n"}, {"swap/b.cpp", "return op.name == kOut;\n"}};
  EXPECT_EQ(compared_op_names(files, {}, {{"swap/a.cpp", "op.name == kOut"}, {"swap/a.cpp", "op.name == kIn"}}),
            (Texts{"swap/b.cpp compares the name of an op; wanted a field of OpDef: return op.name == kOut;",
                   "swap/a.cpp needs no exception for op.name == kIn"}));
}

TEST(OpNames, AreNotWhatTheLibraryTellsOpsApartBy) {
  EXPECT_EQ(compared_op_names(code(), names_of_ops(), exceptions()), kNone);
}

}  // namespace
}  // namespace sectionflow::house

// What callers see of files of graphs besides refusals: the line of their call, and files of before.
#include <gtest/gtest.h>

#include <string>

#include "graph/graph_file.h"
#include "graph/nodes/attention.h"
#include "graph/ops/basic.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

TEST(GraphFile, ErrorsOfFilesNameTheCall) {
  Graph graph;
  const TemporaryFolder folder;
  const std::string absent = (folder.path() / "absent" / "x.json").string();
  const auto where_of = [](const auto& call) {
    try {
      call();
    } catch (const DataError& error) {
      return error.fact("where");
    }
    return std::string("no error");
  };
  const auto place = [](int line) { return "graph_file_calls.cpp:" + std::to_string(line); };
  EXPECT_EQ(where_of([&] { save_graph(graph, absent); }), place(__LINE__));
  EXPECT_EQ(where_of([&] { load_graph(graph, absent); }), place(__LINE__));
}

TEST(GraphFile, AttentionWithoutAnAlignmentIsReadAsItAlwaysWas) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3, 4, 5});
  (void)attention(x, x, x, {.causal = true});
  const std::string text = graph_text(graph);
  EXPECT_EQ(text.find("alignment"), std::string::npos) << "files of before are files of now";
  Graph loaded;
  load_graph_text(loaded, text);
  EXPECT_EQ(graph_text(loaded), text);
  Graph named;
  const Value y = placeholder(named, "x", {2, 3, 4, 5});
  (void)attention(y, y, y, {.causal = true, .alignment = CausalAlignment::last_key});
  Graph again;
  load_graph_text(again, graph_text(named));
  EXPECT_EQ(again.find("attention").options<AttentionNodeOptions>().alignment, CausalAlignment::last_key);
}

}  // namespace
}  // namespace sectionflow

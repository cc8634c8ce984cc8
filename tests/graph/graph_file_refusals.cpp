// Files of graphs from anybody: whatever they hold, they are refused with a typed error and add nothing, or they are
// graphs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <random>

#include "graph/graph_file.h"
#include "graph/nodes/shards.h"
#include "sectionflow.h"
#include "tests/support/random_graph.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing::HasSubstr;

std::string replaced(std::string text, const std::string& part, const std::string& by) {
  const auto position = text.find(part);
  if (position == std::string::npos) throw std::runtime_error("no '" + part + "' in " + text);
  return text.replace(position, part.size(), by);
}

bool is_empty(const Graph& graph) {
  return graph.num_nodes() == 0 && graph.num_groups() == 0 && graph.num_control_edges() == 0 &&
         graph.scope_names().empty() && graph.collected_items().empty();
}

/// Loads what must be refused: the error.
DataError refusal(const std::string& text) {
  Graph graph;
  try {
    load_graph_text(graph, text);
  } catch (const DataError& error) {
    EXPECT_TRUE(is_empty(graph)) << error.what();
    return error;
  }
  throw std::runtime_error("not refused: " + text.substr(0, 2000));
}

/// A variable, its update, randomness, options of many kinds, control edges, groups and collections.
const std::string& small_text() {
  static const std::string text = [] {
    Graph graph;
    const Value x = placeholder(graph, "x", {kDynamic, 4, 4, 2});
    const Value is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
    const GroupId section = graph.new_group("section 0");
    Value y;
    {
      const auto in_group = graph.enter_group(section);
      y = conv2d(x, {.features = 3, .name = "conv"});
      y = batch_norm(y, is_training);
      y = dropout(y, is_training, {.rate = 0.25F});
      y = attention(reshape(y, {-1, 1, 16, 3}), reshape(y, {-1, 1, 16, 3}), reshape(y, {-1, 1, 16, 3}));
      y = y * constant(graph, HostTensor::of<float>({3}, {1, 2, 3}), "three");
      (void)constant(graph, HostTensor::of<bool>({2}, {true, false}), "booleans");
      (void)split(y, 2, 2);
    }
    (void)sectionflow::group(graph, minimize(Momentum{}, mean(y)));
    return graph_text(graph);
  }();
  return text;
}

TEST(GraphFileRefusals, ShardsAreOfTheVariableThatIsGatheredAndBeginAsIt) {
  Graph graph;
  (void)shard_variable(variable("v", fill(graph, {20}, 1)), {2});
  const std::string text = graph_text(graph);
  // Shards of 16 elements, too.
  EXPECT_THAT(refusal(replaced(text, "\"shard_of\":[\"f32\",[20]]", "\"shard_of\":[\"f32\",[30]]")).message(),
              HasSubstr("'v/shard' is a shard of f32[30] for 2"));
  const std::string gathered = "\"gathered_variable\",\"options\":{\"ranks\":";
  EXPECT_THAT(refusal(replaced(text, gathered + "2", gathered + "3")).message(), HasSubstr("f32[20] from 3 ranks"));
  const std::string assigned = "\"assign_shard\",\"options\":{\"ranks\":";
  EXPECT_THAT(refusal(replaced(text, assigned + "2", assigned + "3")).message(),
              HasSubstr("wanted a variable that is a shard of as much, held by 3 ranks"));
}

struct Refusal {
  std::string part, by;  ///< what is replaced in the text
  std::string at, says;  ///< the place that is named, and a part of the message
};

TEST(GraphFileRefusals, SayWhereAndWhy) {
  const std::vector<Refusal> table = {
      {"sectionflow-graph", "onnx", "format", "wanted 'sectionflow-graph'"},
      {"\"version\":1", "\"version\":2", "version", "got version 2; this SectionFlow reads version 1; try a newer one"},
      {"\"version\":1", "\"version\":[]", "version", "got no value"},
      {"\"version\":1", "\"version\":[1]", "version[0]", "wanted no array"},
      {"\"groups\":[\n\"section 0\"]", "\"groups\":7", "groups", "wanted an array"},
      {"\"groups\":", "\"grups\":", "", "wanted groups here"},
      {"\"scopes\":", "\"groups\":", "", "has 'groups' twice"},
      {"\"nodes\":", "\"more\":", "", "got the member 'more'; wanted nodes here"},
      {"\"op\":\"conv2d\"", "\"op\":\"convd2\"", "nodes[5].op", "which is unknown; did you mean 'conv2d'?"},
      {"\"op\":\"conv2d\"", "\"op\":\"conv2d\",\"op\":\"conv2d\"", "nodes[5]", "has 'op' twice"},
      {"\"stride\":[1,1]", "\"stride\":[1,0]", "nodes[5]", "stride {1, 0}; wanted 1 or more"},
      {"\"stride\":[1,1]", "\"stride\":[1,1,1]", "nodes[5]", "wanted one an axis, 2"},
      {"\"stride\":[1,1]", "\"stride\":[1,0.5]", "nodes[5].options.stride[1]", "got 0.5; wanted a whole number"},
      {"\"stride\":[1,1]", "\"stride\":[1,1e400]", "nodes[5]", "no JSON"},
      {"\"stride\":[1,1]", "\"stride\":[1,18446744073709551615]", "nodes[5].options.stride[1]",
       "wanted a whole number"},
      {"\"stride\":", "\"strid\":", "nodes[5].options", "has no 'stride'"},
      {"\"groups\":1,\"output", "\"groups\":1,\"grups\":1,\"output", "nodes[5].options",
       "unknown member 'grups'; did you mean 'groups'?"},
      {"\"padding\":\"same\"", "\"padding\":\"some\"", "nodes[5].options.padding", "did you mean 'same'?"},
      {"\"rate\":0.25", "\"rate\":1.0", "", "rate 1; wanted 0 to 1"},
      {"\"rate\":0.25", "\"rate\":1e300", "", "wanted a number of f32"},
      {"\"rate\":0.25", "\"rate\":\"nan:7ff8\"", "", "'nan:' and 16 digits"},
      {"\"f32\",[-1,4,4,2]", "\"f33\",[-1,4,4,2]", "nodes[0].options.type[0]", "did you mean 'f32'?"},
      {"\"f32\",[-1,4,4,2]", "\"half\",[-1,4,4,2]", "nodes[0].options.type[0]",
       "wanted one of f32, f64, i32, i64, u8, bool"},
      {"\"f32\",[-1,4,4,2]", "\"f32\",[-2,4,4,2]", "nodes[0].options.type[1][0]", "got -2"},
      {"\"f32\",[-1,4,4,2]", "\"f32\",[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "nodes[0].options.type[1]",
       "wanted at most 16"},
      {"\"types\":[[\"f32\",[-1,4,4,2]]]", "\"types\":[[\"f32\",[-1,4,4,3]]]", "nodes[0].types[0]",
       "got f32[?,4,4,3]; wanted f32[?,4,4,2]"},
      {"\"types\":[[\"f32\",[-1,4,4,2]]]", "\"types\":[]", "nodes[0].types", "got 0 types; wanted 1"},
      {"\"types\":[[\"f32\",[-1,4,4,2]]]", "\"random\":0,\"types\":[[\"f32\",[-1,4,4,2]]]", "nodes[0].random",
       "not random"},
      {"\"phase\":\"training\"", "\"phase\":\"trainin\"", "", "did you mean 'training'?"},
      {"\"name\":\"is_training\"", "\"name\":\"x\"", "nodes[1].name", "another node has this name"},
      {"\"inputs\":[[0,0],", "\"inputs\":[[99,0],", "nodes[5].inputs[0][0]", "wanted a number from 0 to 4"},
      {"\"inputs\":[[0,0],", "\"inputs\":[[0,1],", "nodes[5].inputs[0][1]", "wanted a number from 0 to 0"},
      {"\"inputs\":[[0,0],", "\"inputs\":[[0,0],[0,0],", "nodes[5]", "got 3 inputs; wanted 2"},
      {"\"inputs\":[[0,0],", "\"inputs\":[", "nodes[5]", "got 1 inputs; wanted 2"},
      {"\"group\":0", "\"group\":1", "", "wanted a number from -1 to 0"},
      {"\"bytes\":\"AACAPwAAAEAAAEBA\"", "\"bytes\":\"AACAPwAAAEAAAEB\"", "", "got no whole number of bytes"},
      {"\"bytes\":\"AACAPwAAAEAAAEBA\"", "\"bytes\":\"AACAPwAAAEAAAE$A\"", "", "no base64"},
      {"[\"f32\",[3]],\"bytes\"", "[\"f32\",[3000000000000]],\"bytes\"", "", "wanted 12000000000000"},
      {"[\"f32\",[3]],\"bytes\"", "[\"f32\",[3000000000000,9000000000000]],\"bytes\"", "", "a tensor of the type"},
      {"\"bytes\":\"AQA=\"", "\"bytes\":\"AQI=\"", "", "neither 0 nor 1"},
      {"\"bytes\":\"AQA=\"", "\"bytes\":\"AQB=\"", "", "no base64"},
      {"\"parts\":2", "\"parts\":2000000000", "", "wanted one at least, and at most 65536"},
      {"\"parts\":2", "\"parts\":3000000000", "", "from -2147483648 to 2147483647"},
      {"\"initializer\":", "\"initializer\":99", "", "there is no node"},
      {"\"random\":0", "\"random\":1", "", "got 1; wanted 0"},
      {"\"control\":[", "\"control\":[999999,", "", "there is no node 999999"},
      {"\"name\":\"variables\",\"value\"", "\"name\":\"variables\",\"operation\":0,\"value\"", "collections[0]",
       "either 'value' or 'operation'"},
  };
  for (const Refusal& row : table) {
    SCOPED_TRACE(row.by);
    const DataError error = refusal(replaced(small_text(), row.part, row.by));
    EXPECT_EQ(error.code(), ErrorCode::graph_file);
    EXPECT_THAT(error.what(), HasSubstr("SF-E402"));
    EXPECT_THAT(error.message(), HasSubstr(row.says));
    if (!row.at.empty()) {
      EXPECT_EQ(error.fact("at"), row.at) << error.what();
    }
  }
}

TEST(GraphFileRefusals, KnowWhatIsNoGraphAtAll) {
  for (const char* text :
       {"", " ", "{}", "[]", "7", "null", "\"x\"", "{", "{\"format\":", "\xff", "{\"format\":\"\xff\"}"}) {
    EXPECT_EQ(refusal(text).code(), ErrorCode::graph_file) << text;
  }
  EXPECT_THAT(refusal(small_text() + "{}").message(), HasSubstr("no JSON"));
  EXPECT_THAT(refusal(small_text() + '\0').message(), HasSubstr("zero byte"));
}

TEST(GraphFileRefusals, KeepTheLimits) {
  const std::string before = R"({"format":"sectionflow-graph","version":1,"groups":[)";
  EXPECT_THAT(refusal(before + std::string(100000, '[')).message(), HasSubstr("nested deeper than 64"));
  EXPECT_THAT(refusal(before + "\"" + std::string(5000, 'a') + "\"]").message(), HasSubstr("wanted at most 4096"));
  std::string many = before + "[0";
  for (int i = 0; i < (1 << 20); ++i) many += ",0";
  EXPECT_THAT(refusal(many).message(), HasSubstr("holds more than 1048576 values"));
  EXPECT_THAT(refusal(std::string(100'000'001, ' ')).message(), HasSubstr("wanted at most 100000000"));
}

TEST(GraphFileRefusals, FindCyclesAndForeignInitializers) {
  Graph graph;
  const Value v = variable("v", fill(graph, {2}, 1));
  const Value w = variable("w", fill(graph, {2}, 2));
  const Value z = neg(v + w);
  const std::string good = graph_text(graph);
  const std::string id = std::to_string(initializer_of(v).node().id());
  const std::string other = std::to_string(initializer_of(w).node().id());
  const DataError swapped = refusal(replaced(good, "\"initializer\":" + id, "\"initializer\":" + other));
  EXPECT_THAT(swapped.message(), HasSubstr("wanted an assign to it"));
  EXPECT_EQ(swapped.fact("at"), "nodes[1].options.initializer");
  // The sum waits for what is computed from it.
  const std::string last = std::to_string(z.node().id());
  const DataError cycle = refusal(replaced(good, "\"op\":\"add\"", "\"op\":\"add\",\"control\":[" + last + "]"));
  EXPECT_THAT(cycle.message(), HasSubstr("neg"));
  EXPECT_THAT(cycle.what(), HasSubstr("SF-E402"));
}

TEST(GraphFileRefusals, NameTheFile) {
  const TemporaryFolder folder;
  Graph graph;
  const auto path = folder.file("damaged.json", "{\"format\":7}").string();
  try {
    load_graph(graph, path);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.fact("file"), path);
    EXPECT_EQ(error.fact("at"), "format");
  }
  EXPECT_THROW(load_graph(graph, (folder.path() / "absent").string()), DataError);
  EXPECT_THROW(load_graph(graph, folder.path().string()), DataError);
  const auto pipe = (folder.path() / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(load_graph(graph, pipe), DataError);
  const auto huge = folder.file("huge.json", "");
  std::filesystem::resize_file(huge, 100'000'001);
  EXPECT_THROW(load_graph(graph, huge.string()), DataError);
  EXPECT_THROW(save_graph(graph, (folder.path() / "absent" / "x.json").string()), DataError);
  EXPECT_TRUE(is_empty(graph));
}

TEST(GraphFileRefusals, OnlyEmptyGraphsAreLoadedInto) {
  Graph with_node, with_group;
  (void)placeholder(with_node, "x", {2});
  (void)with_group.new_group("a");
  for (Graph* graph : {&with_node, &with_group}) {
    const std::string before = graph_text(*graph);
    EXPECT_THROW(load_graph_text(*graph, small_text()), ArgumentError);
    EXPECT_EQ(graph_text(*graph), before);
  }
}

TEST(GraphFileRefusals, WhatAFileCannotHoldIsNotWritten) {
  Graph latin, named, large;
  (void)placeholder(latin, "caf\xe9", {2});
  EXPECT_THAT(error_text<ArgumentError>([&] { (void)graph_text(latin); }), HasSubstr("not UTF-8"));
  (void)placeholder(named, std::string(4097, 'n'), {2});
  EXPECT_THAT(error_text<ArgumentError>([&] { (void)graph_text(named); }), HasSubstr("longer than 4096"));
  (void)constant(large, HostTensor(Dtype::u8, {80'000'000}));
  EXPECT_THAT(error_text<ArgumentError>([&] { (void)graph_text(large); }), HasSubstr("100000000"));
}

// ---- Damage of every kind.

/// Loads a text that may be a graph: then its own text is the same graph again.
bool load_or_refuse(const std::string& text) {
  Graph graph;
  try {
    load_graph_text(graph, text);
  } catch (const DataError& error) {
    EXPECT_EQ(error.code(), ErrorCode::graph_file) << error.what();
    EXPECT_TRUE(is_empty(graph)) << error.what();
    return false;
  }
  const std::string own = graph_text(graph);
  Graph again;
  load_graph_text(again, own);
  EXPECT_TRUE(graph_text(again) == own);
  return true;
}

TEST(GraphFileDamage, EveryBeginningIsRefused) {
  const std::string& text = small_text();
  ASSERT_TRUE(load_or_refuse(text));
  const std::size_t whole = text.size() - 1;  // without the last line's end
  const std::size_t step = std::max<std::size_t>(1, whole / 997);
  for (std::size_t length = 0; length < whole; length += step) {
    ASSERT_FALSE(load_or_refuse(text.substr(0, length))) << length;
  }
  for (std::size_t length = whole - 200; length < whole; ++length) {
    ASSERT_FALSE(load_or_refuse(text.substr(0, length))) << length;
  }
  EXPECT_TRUE(load_or_refuse(text.substr(0, whole)));
}

/// Changes texts at random.
class Mutator {
 public:
  explicit Mutator(std::uint32_t seed) : random_(seed) {}

  std::string mutated(std::string text) {
    const std::size_t changes = 1 + below(3);
    for (std::size_t i = 0; i < changes && !text.empty(); ++i) change(text);
    return text;
  }

 private:
  std::size_t below(std::size_t bound) { return random_() % bound; }

  void change(std::string& text) {
    static const std::vector<std::string> words = {"0",
                                                   "-1",
                                                   "1",
                                                   "2",
                                                   "7",
                                                   "2147483647",
                                                   "-2147483648",
                                                   "4294967295",
                                                   "9223372036854775807",
                                                   "-9223372036854775808",
                                                   "1e308",
                                                   "-0.0",
                                                   "null",
                                                   "true",
                                                   "false",
                                                   "[]",
                                                   "{}",
                                                   "\"\"",
                                                   "\"infinity\"",
                                                   "\"nan:7ff8000000000000\"",
                                                   "[",
                                                   "]",
                                                   "{",
                                                   "}",
                                                   ",",
                                                   ":",
                                                   "\"",
                                                   "[0,0]",
                                                   "65536",
                                                   "\"f64\"",
                                                   "\"bool\"",
                                                   "\"i64\""};
    const std::size_t position = below(text.size());
    const std::size_t length = std::min(1 + below(40), text.size() - position);
    switch (below(8)) {
      case 0:
        text[position] = static_cast<char>(text[position] ^ (1 << below(8)));
        return;
      case 1:
        text[position] = static_cast<char>(below(256));
        return;
      case 2:
        text.erase(position, length);
        return;
      case 3:
        text.insert(below(text.size()), text.substr(position, length));
        return;
      case 4:
        return exchange_lines(text);
      default:
        return replace_token(text, position, words[below(words.size())]);
    }
  }

  /// Puts a word in the place of the number or text behind a position.
  void replace_token(std::string& text, std::size_t position, const std::string& word) {
    const std::size_t begin = text.find_first_of("-0123456789\"", position);
    if (begin == std::string::npos) return;
    const bool is_text = text[begin] == '"';
    const std::size_t end = is_text ? text.find('"', begin + 1) : text.find_first_not_of("-0123456789.e+", begin);
    if (end == std::string::npos) return;
    text.replace(begin, end - begin + (is_text ? 1 : 0), word);
  }

  void exchange_lines(std::string& text) {
    const auto line_at = [&](std::size_t position) {
      const std::size_t begin = text.rfind('\n', position) + 1;  // npos + 1 is 0
      return std::pair(begin, std::min(text.find('\n', position), text.size()));
    };
    const auto a = line_at(below(text.size())), b = line_at(below(text.size()));
    if (a.first >= a.second || b.first >= b.second) return;
    const std::string line = text.substr(b.first, b.second - b.first);
    text.replace(a.first, a.second - a.first, line);
  }

  std::mt19937 random_;
};

TEST(GraphFileDamage, ThousandsOfMutationsAreRefusedOrGraphs) {
  const char* given = std::getenv("SECTIONFLOW_TEST_SEED");
  const auto seed = static_cast<std::uint32_t>(given == nullptr ? 20260 : std::atoll(given));
  SCOPED_TRACE(text_of("SECTIONFLOW_TEST_SEED=", seed));
  std::vector<std::string> texts = {small_text()};
  for (std::uint64_t model = 0; model < 4; ++model) {
    texts.push_back(graph_text(testing_support::TrainableRandomModel({.seed = model, .max_layers = 4}).graph));
  }
  Mutator mutator(seed);
  int graphs = 0;
  constexpr int kMutations = 6000;
  for (int i = 0; i < kMutations; ++i) {
    const std::string text = mutator.mutated(texts[static_cast<std::size_t>(i) % texts.size()]);
    ASSERT_NO_THROW(graphs += load_or_refuse(text) ? 1 : 0) << "mutation " << i << ":\n" << text;
    if (HasFailure()) FAIL() << "mutation " << i << ":\n" << text;
  }
  // Neither all nor none: a test that only sees broken JSON would say little.
  EXPECT_GT(graphs, kMutations / 100);
  EXPECT_LT(graphs, kMutations / 2);
}

}  // namespace
}  // namespace sectionflow

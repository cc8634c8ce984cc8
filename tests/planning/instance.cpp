#include "planning/instance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "planning/evaluate.h"
#include "planning/generate.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::planning {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class Files {
 public:
  Instance read(const std::string& text) {
    const auto path = folder_.path() / "instance.json";
    std::ofstream(path, std::ios::binary) << text;
    return read_instance(path);
  }
  /// The error's sentence; empty where the text is taken.
  std::string refusal_of(const std::string& text) {
    try {
      read(text);
    } catch (const DataError& error) {
      return error.message();
    }
    return "";
  }
  std::filesystem::path path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

/// A graph of kind 1 of these nodes and links.
std::string kind1(const std::string& nodes, const std::string& links) {
  return R"({"directed": true, "multigraph": false, "graph": {"name": "g"}, "nodes": [)" + nodes + R"(], "links": [)" +
         links + "]}";
}
std::string node(const std::string& id, const std::string& more = "") {
  return R"({"id": )" + id + R"(, "name": "n", "backward": false, "cost_cpu": 2.5, "cost_ram": 40)" + more + "}";
}
std::string link(const std::string& from, const std::string& to) {
  return R"({"source": )" + from + R"(, "target": )" + to + "}";
}

TEST(ReadInstance, TakesTheFirstPublicKind) {
  const Instance instance = Files().read(kind1(
      R"({"name": "b", "backward": true, "cost_cpu": 4770, "cost_ram": 2048, "id": 7},
         {"name": "a", "backward": false, "cost_cpu": 90, "cost_ram": 311040000, "id": 3},
         {"name": "c", "backward": true, "cost_cpu": 0.5, "cost_ram": 2e3, "id": 11})",
      link("3", "7") + "," + link("7", "11") + "," + link("3", "11") + "," + link("3", "11")));
  EXPECT_EQ(instance.name, "g");
  EXPECT_THAT(instance.ids, ElementsAre("3", "7", "11"));
  EXPECT_THAT(instance.backward, ElementsAre(false, true, true));
  const Problem& problem = instance.problem;
  ASSERT_EQ(problem.operations.size(), 3U);
  EXPECT_EQ(problem.operations[0].name, "a");
  EXPECT_EQ(problem.operations[1].seconds, 4770);
  EXPECT_THAT(problem.operations[2].inputs, ElementsAre(0, 1));
  EXPECT_THAT(problem.operations[2].outputs, ElementsAre(2));
  EXPECT_EQ(problem.values[0].bytes, 311040000);
  EXPECT_EQ(problem.values[2].bytes, 2000);
  EXPECT_EQ(default_peak(problem), 311040000 + 2048 + 2000);
}

TEST(ReadInstance, TakesTheSecondPublicKindInItsOwnOrder) {
  const Instance instance = Files().read(
      R"({"directed": true, "graph": {"order": [0, 3, 1, 2], "pos": {"0": [0, 0]}}, "nodes": [
          {"out_cost": 790, "param_cost": 0, "duration": 0, "name": 0}, {"out_cost": 10, "duration": 5, "name": 1},
          {"out_cost": 20, "duration": 6, "name": 2}, {"out_cost": 30, "duration": 7, "name": 3}],
          "links": [{"edge_cost": 1, "0": 0, "1": 3}, {"0": 3, "1": 2}, {"0": 0, "1": 1}]})");
  EXPECT_THAT(instance.ids, ElementsAre("0", "3", "1", "2"));
  EXPECT_THAT(instance.problem.operations[3].inputs, ElementsAre(1));
  EXPECT_EQ(instance.problem.operations[1].seconds, 7);
  EXPECT_EQ(instance.problem.values[2].bytes, 10);
}

TEST(ReadInstance, PutsIdsInAnOrderThatLinksAllow) {
  const Instance instance =
      Files().read(kind1(node("2") + "," + node("0") + "," + node("1"), link("2", "0") + "," + link("0", "1")));
  EXPECT_THAT(instance.ids, ElementsAre("2", "0", "1"));
  EXPECT_THAT(Files().read(kind1(node("\"z\"") + "," + node("\"a\""), "")).ids, ElementsAre("\"z\"", "\"a\""));
}

TEST(ReadInstance, PutsNumbersOf64BitsInTheirOrder) {
  const std::string most = "18446744073709551615", half = "9223372036854775808", least = "-9223372036854775808";
  const Instance instance = Files().read(kind1(
      node(most) + "," + node("-1") + "," + node(half) + "," + node("7") + "," + node(least) + "," + node("0"), ""));
  EXPECT_THAT(instance.ids, ElementsAre(least, "-1", "0", "7", half, most));
}

TEST(ReadInstance, NamesThatAreNoTextsNeedNotBeWritable) {
  const std::string deep = std::string(400'000, '[') + std::string(400'000, ']');
  const Instance instance = Files().read(kind1(R"({"id": 1, "cost_cpu": 1, "cost_ram": 1, "name": )" + deep +
                                                   R"(}, {"id": 2, "cost_cpu": 1, "cost_ram": 1, "name": 5})",
                                               ""));
  EXPECT_EQ(instance.problem.operations[0].name, "1");
  EXPECT_EQ(instance.problem.operations[1].name, "5");
}

TEST(ReadInstance, RefusalsNameTheNode) {
  Files files;
  const auto expect = [&](const std::string& text, const testing::Matcher<std::string>& message) {
    EXPECT_THAT(files.refusal_of(text), message) << text;
  };
  const auto with = [](const std::string& cpu, const std::string& ram) {
    return kind1(R"({"id": 4, "name": "conv", "cost_cpu": )" + cpu + R"(, "cost_ram": )" + ram + "}", "");
  };
  expect(kind1(node("4") + "," + node("4"), ""), AllOf(HasSubstr("node 4"), HasSubstr("twice")));
  expect(kind1(node("4") + "," + R"({"cost_cpu": 1, "cost_ram": 1})", ""), HasSubstr("place 1 has no id"));
  expect(kind1(node("1.5"), ""), HasSubstr("place 0 has no id"));
  expect(kind1(node("4"), link("4", "5")), AllOf(HasSubstr("link 0"), HasSubstr("node 5")));
  expect(kind1(node("4"), R"({"source": 4})"), HasSubstr("link 0"));
  expect(kind1(node("4"), "7"), HasSubstr("link 0"));
  expect(with("-1", "1"), AllOf(HasSubstr("node 4 'conv'"), HasSubstr("cost_cpu")));
  expect(with("1", "-1"), AllOf(HasSubstr("node 4 'conv'"), HasSubstr("cost_ram")));
  expect(with("1", "1.5"), AllOf(HasSubstr("node 4 'conv'"), HasSubstr("whole")));
  expect(with("1", "1e19"), AllOf(HasSubstr("node 4 'conv'"), HasSubstr("2^53")));
  expect(with("1", "18446744073709551615"), HasSubstr("2^53"));
  expect(with("null", "1"), AllOf(HasSubstr("node 4 'conv'"), HasSubstr("cost_cpu")));
  expect(with("\"1\"", "1"), HasSubstr("no number"));
  expect(R"({"nodes": [{"id": 4}], "links": []})", AllOf(HasSubstr("node 4"), HasSubstr("duration")));
  expect(kind1(R"({"id": 1, "cost_cpu": 1, "cost_ram": 5e15}, {"id": 2, "cost_cpu": 1, "cost_ram": 5e15})", ""),
         AllOf(HasSubstr("node 2"), HasSubstr("add up")));
  expect(kind1(R"({"id": 1, "cost_cpu": 1e308, "cost_ram": 4}, {"id": 2, "cost_cpu": 1e308, "cost_ram": 4})", ""),
         AllOf(HasSubstr("node 2"), HasSubstr("finite sum")));
  // On a cycle, and not merely behind one.
  expect(kind1(node("1") + "," + node("2") + "," + node("3") + "," + node("0"),
               link("2", "3") + "," + link("3", "2") + "," + link("3", "0")),
         AllOf(HasSubstr("cycle"), testing::ContainsRegex("node [23] ")));
  expect(kind1(node("1"), link("1", "1")), AllOf(HasSubstr("node 1"), HasSubstr("cycle")));
}

TEST(ReadInstance, RefusesWhatIsNoGraph) {
  Files files;
  for (const std::string text :
       {"", "{", "[]", "7", "{}", R"({"nodes": 3, "links": []})", R"({"nodes": []})", R"({"nodes": [3], "links": []})",
        R"({"nodes": [], "links": []})", R"({"nodes": [], "links": [], "directed": false})",
        R"({"nodes": [{"id": 1, "cost_cpu": NaN, "cost_ram": 1}], "links": []})",
        R"({"nodes": [{"id": 1, "cost_cpu": 1e999, "cost_ram": 1}], "links": []})", "\"\xff\""}) {
    EXPECT_NE(files.refusal_of(text), "") << text;
  }
  EXPECT_NE(files.refusal_of(std::string(100'000, '[')), "");
  EXPECT_THROW(read_instance(files.path() / "absent"), DataError);
  EXPECT_THROW(read_instance(files.path()), DataError);
}

TEST(ReadInstance, RefusesOrdersThatAreNone) {
  Files files;
  const auto ordered = [&](const std::string& order) {
    return files.refusal_of(R"({"graph": {"order": )" + order + R"(}, "nodes": [)" + node("1") + "," + node("2") +
                            R"(], "links": [)" + link("1", "2") + "]}");
  };
  EXPECT_EQ(ordered("[1, 2]"), "");
  EXPECT_THAT(ordered("[2, 1]"), AllOf(HasSubstr("node 2"), HasSubstr("before")));
  EXPECT_THAT(ordered("[1, 1]"), AllOf(HasSubstr("node 1"), HasSubstr("twice")));
  EXPECT_THAT(ordered("[1, 3]"), HasSubstr("node 3"));
  EXPECT_THAT(ordered("[1]"), HasSubstr("2 nodes"));
  EXPECT_THAT(ordered("{}"), HasSubstr("2 nodes"));
}

/// Every cut and every changed byte of a small file is read or refused.
TEST(ReadInstance, DamagedFilesAreReadOrRefused) {
  Files files;
  const std::string whole = kind1(node("1") + "," + node("2"), link("1", "2"));
  int taken = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_NE(files.refusal_of(whole.substr(0, i)), "") << i;
    for (const char letter : {'0', '"', ']', '\xff'}) {
      std::string damaged = whole;
      damaged[i] = letter;
      taken += files.refusal_of(damaged).empty() ? 1 : 0;
    }
  }
  EXPECT_GT(taken, 0);
}

bool same(const Instance& a, const Instance& b) {
  const Problem &p = a.problem, &q = b.problem;
  bool equal =
      p.operations.size() == q.operations.size() && a.ids == b.ids && a.backward == b.backward && a.name == b.name;
  for (std::size_t i = 0; equal && i < p.operations.size(); ++i) {
    equal = p.operations[i].name == q.operations[i].name && p.operations[i].seconds == q.operations[i].seconds &&
            p.operations[i].inputs == q.operations[i].inputs && p.values[i].bytes == q.values[i].bytes;
  }
  return equal;
}

TEST(WriteInstance, IsReadBackAsItWas) {
  Files files;
  const auto path = files.path() / "written.json";
  for (const Instance& instance :
       {generate_gpt({3, 64, 32, 128, 4}), generate_layered(100, 3), generate_chain(9, 3), generate_unet(3, 3)}) {
    write_instance(path, instance);
    EXPECT_TRUE(same(read_instance(path), instance)) << instance.name;
  }
}

TEST(WriteInstance, RefusesWhatFilesCannotSay) {
  Files files;
  const auto refused = [&](auto change) {
    Instance instance = generate_chain(2, 1);
    change(instance.problem);
    EXPECT_THROW(write_instance(files.path() / "refused", instance), ArgumentError);
    EXPECT_FALSE(std::filesystem::exists(files.path() / "refused"));
  };
  refused([](Problem& problem) { problem.operations[1].workspace = 5; });
  refused([](Problem& problem) { problem.operations[1].repeatable = false; });
  refused([](Problem& problem) { problem.values[1].needed_at_end = true; });
  refused([](Problem& problem) { problem.values[1].bytes = -1; });
  refused([](Problem& problem) { problem.operations[1].name = "\xff"; });
  refused([](Problem& problem) { problem.order = {{0, 1}}; });
  refused([](Problem& problem) { problem.operations[1].seconds_again = 2; });
  refused([](Problem& problem) {
    problem.values[1].bytes = problem.values[0].bytes;
    problem.operations[1].overwrites = {{0, 1}};
  });
}

/// A hash of all numbers of an instance (FNV-1a).
std::uint64_t hash_of(const Instance& instance) {
  std::uint64_t hash = 14695981039346656037ULL;
  const auto add = [&](double number) {
    const auto bits = std::bit_cast<std::uint64_t>(number);
    for (int i = 0; i < 8; ++i) hash = (hash ^ (bits >> (8 * i) & 255U)) * 1099511628211ULL;
  };
  for (std::size_t i = 0; i < instance.problem.operations.size(); ++i) {
    add(instance.problem.operations[i].seconds);
    add(static_cast<double>(instance.problem.values[i].bytes));
    for (const int input : instance.problem.operations[i].inputs) add(input);
  }
  return hash;
}

TEST(Generators, GiveTheSameOnEveryMachine) {
  EXPECT_EQ(hash_of(generate_gpt()), 11460106514666273221U);
  EXPECT_EQ(hash_of(generate_layered(300, 1)), 9065551175140736658U);
  EXPECT_EQ(hash_of(generate_chain(20, 1)), 14920234334295680853U);
  EXPECT_EQ(hash_of(generate_unet(4, 1)), 6822230153856298307U);
  EXPECT_NE(hash_of(generate_layered(300, 2)), hash_of(generate_layered(300, 1)));
}

TEST(Generators, HaveTheSizesThatAreAsked) {
  EXPECT_EQ(generate_gpt().problem.operations.size(), 292U);
  EXPECT_EQ(generate_gpt({.layers = 6}).problem.operations.size(), 148U);
  for (const int operations : {1, 2, 13, 500}) {
    EXPECT_EQ(generate_layered(operations, 7).problem.operations.size(), static_cast<std::size_t>(operations));
  }
  EXPECT_EQ(generate_chain(20, 1).problem.operations.size(), 62U);
  const Instance unet = generate_unet(4, 1);
  EXPECT_EQ(std::count(unet.backward.begin(), unet.backward.end(), false), 26);
}

TEST(Generators, RefuseSizesThatAreNone) {
  EXPECT_THROW(generate_layered(0, 1), ArgumentError);
  EXPECT_THROW(generate_layered(200'001, 1), ArgumentError);
  EXPECT_THROW(generate_chain(-1, 1), ArgumentError);
  EXPECT_THROW(generate_unet(1'000'000'000, 1), ArgumentError);
  EXPECT_THROW(generate_unet(3, 1, std::numeric_limits<std::int64_t>::max()), ArgumentError);
  EXPECT_THROW(generate_gpt({.layers = 0}), ArgumentError);
  EXPECT_THROW(generate_gpt({.hidden = std::numeric_limits<std::int64_t>::max()}), ArgumentError);
  EXPECT_THROW(generate_gpt({}, {.flops = 0}), ArgumentError);
}

}  // namespace
}  // namespace sectionflow::planning

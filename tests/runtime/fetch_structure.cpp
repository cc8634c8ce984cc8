#include "runtime/fetch_structure.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "graph/ops/basic.h"
#include "runtime/session.h"

namespace sectionflow {
namespace {

/// Constants whose content tells which is which.
struct FourConstants {
  Graph graph;
  Value one = constant(graph, 1.0F), two = constant(graph, 2.0F), three = constant(graph, 3.0F),
        four = constant(graph, 4.0F);
  Session session{graph, {.device_memory = 1_MiB, .threads = 1}};
  FourConstants() { session.initialize(); }
};

float number(const HostTensor& tensor) {
  return tensor.item<float>();
}

TEST(FetchStructure, ABracedListBindsToNames) {
  FourConstants f;
  const auto [a, b] = f.session.run({f.two, f.one});
  EXPECT_EQ(number(a), 2);
  EXPECT_EQ(number(b), 1);
}

TEST(FetchStructure, OneValueGivesOneTensor) {
  FourConstants f;
  static_assert(std::is_same_v<Fetched<Value>, HostTensor>);
  EXPECT_EQ(number(f.session.run(f.three)), 3);
}

TEST(FetchStructure, VectorsKeepTheirOrderAndLength) {
  FourConstants f;
  static_assert(std::is_same_v<Fetched<std::vector<Value>>, std::vector<HostTensor>>);
  const auto tensors = f.session.run(std::vector{f.three, f.one, f.three});
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(number(tensors[0]), 3);
  EXPECT_EQ(number(tensors[1]), 1);
  EXPECT_EQ(number(tensors[2]), 3) << "a value may be fetched twice";
  EXPECT_TRUE(f.session.run(std::vector<Value>{}).empty());
}

TEST(FetchStructure, MapsKeepTheirKeys) {
  FourConstants f;
  const auto tensors = f.session.run(std::map<std::string, Value>{{"b", f.two}, {"a", f.four}});
  static_assert(std::is_same_v<decltype(tensors), const std::map<std::string, HostTensor>>);
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(number(tensors.at("a")), 4);
  EXPECT_EQ(number(tensors.at("b")), 2);
}

TEST(FetchStructure, PairsTuplesAndArraysComeBackInKind) {
  FourConstants f;
  const auto [first, second] = f.session.run(std::pair{f.one, f.two});
  EXPECT_EQ(number(first), 1);
  EXPECT_EQ(number(second), 2);
  const auto [a, b, c] = f.session.run(std::tuple{f.three, f.two, f.one});
  EXPECT_EQ(number(a), 3);
  EXPECT_EQ(number(b), 2);
  EXPECT_EQ(number(c), 1);
  const std::array<HostTensor, 2> both = f.session.run(std::array{f.four, f.one});
  EXPECT_EQ(number(both[0]), 4);
  EXPECT_EQ(number(both[1]), 1);
  const std::tuple<HostTensor> alone = f.session.run(std::tuple<Value>{f.two});
  EXPECT_EQ(number(std::get<0>(alone)), 2);
}

TEST(FetchStructure, NestsToAnyDepth) {
  FourConstants f;
  using Inner = std::map<int, std::vector<Value>>;
  const std::tuple<Value, std::vector<std::pair<Value, Inner>>, std::array<std::vector<Value>, 2>> fetches = {
      f.one, {{f.two, {{7, {f.three, f.four}}, {5, {}}}}, {f.four, {}}}, {{{f.two}, {f.one, f.three}}}};
  const auto [alone, list, pair_of_lists] = f.session.run(fetches);
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(list)>,
                               std::vector<std::pair<HostTensor, std::map<int, std::vector<HostTensor>>>>>);
  EXPECT_EQ(number(alone), 1);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(number(list[0].first), 2);
  EXPECT_TRUE(list[0].second.at(5).empty());
  ASSERT_EQ(list[0].second.at(7).size(), 2u);
  EXPECT_EQ(number(list[0].second.at(7)[0]), 3);
  EXPECT_EQ(number(list[0].second.at(7)[1]), 4);
  EXPECT_EQ(number(list[1].first), 4);
  EXPECT_TRUE(list[1].second.empty());
  EXPECT_EQ(number(pair_of_lists[0].at(0)), 2);
  EXPECT_EQ(number(pair_of_lists[1].at(1)), 3);
}

TEST(FetchStructure, FlatteningKeepsTheOrderOfReading) {
  FourConstants f;
  const auto flat =
      flatten_fetches(std::tuple{std::vector{f.two, f.one}, std::map<int, Value>{{2, f.three}, {1, f.four}}});
  EXPECT_EQ(flat, (std::vector<Value>{f.two, f.one, f.four, f.three}));
}

}  // namespace
}  // namespace sectionflow

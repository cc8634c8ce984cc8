// Functions of places, segments and draws: values and gradients, what is refused, and nets of them in sections.
#include "graph/index_functions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/gradients.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/indexing.h"
#include "graph/ops/random.h"
#include "graph/ops/ranking.h"
#include "graph/ops/reduce.h"
#include "graph/ops/scan.h"
#include "graph/ops/scatter.h"
#include "graph/ops/unary.h"
#include "sections/graph_section_manager.h"
#include "tests/graph/trained_bytes.h"
#include "tests/support/gradient_check.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/moved.h"
#include "tests/support/op_case.h"
#include "tests/support/tolerance.h"

namespace sectionflow::index_functions {
namespace {

using namespace testing_support;

// ---- Values and gradients.

OpCase gather_nd_case(const std::string& name, const Shape& shape, Shape indices, Dtype index = Dtype::i32,
                      Dtype dtype = Dtype::f32) {
  CaseInput x = moved_input(dtype, shape), places = moved_input(index, indices);
  x.has_batch = false;
  const auto num_indices = static_cast<std::size_t>(indices[-1]);
  places.high = static_cast<double>(*std::min_element(shape.dims().begin(), shape.dims().begin() + indices[-1])) - 1;
  OpCase op_case = moving_case(
      name, {x, places}, [](Graph&, const std::vector<Value>& in) { return std::vector{gather_nd(in[0], in[1])}; },
      [=](const std::vector<Doubles>& in) {
        Doubles y;
        for (std::size_t n = 0; n < in[1].size(); n += num_indices) {
          std::size_t row = 0, length = in[0].size();
          for (std::size_t i = 0; i < num_indices; ++i) {
            const auto dim = static_cast<std::size_t>(shape[static_cast<int>(i)]);
            row = row * dim + static_cast<std::size_t>(in[1][n + i]);
            length /= dim;
          }
          for (std::size_t c = 0; c < length; ++c) y.push_back(in[0][row * length + c]);
        }
        return std::vector<Doubles>{y};
      });
  op_case.dynamic_batch = indices.rank() > 1;
  return op_case;
}

class GatherNd : public testing::TestWithParam<OpCase> {};
TEST_P(GatherNd, TakesPartsByPlace) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, GatherNd,
                         testing::Values(gather_nd_case("rows", {5, 3}, {4, 1}),
                                         gather_nd_case("elements", {5, 3}, {7, 2}),
                                         gather_nd_case("parts", {4, 3, 6}, {2, 5, 2}, Dtype::i64),
                                         gather_nd_case("one_place", {4, 3, 6}, {3}),
                                         gather_nd_case("whole", {4, 3}, {9, 2}, Dtype::i64, Dtype::i64),
                                         gather_nd_case("bf16", {4, 3}, {9, 2}, Dtype::i32, Dtype::bf16)),
                         case_name);

TEST(GatherNdExactly, APlaceOutsideOfXIsMissingWhicheverIndexLeavesIt) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 3});
  const std::vector<std::int64_t> places = {1, 2,          0, 3, 1,    -1, 2, 0, -1, 1, kMost, 1, kMost / 3 + 1,
                                            0, -kMost - 1, 2, 0, kMost};
  const Value y = gather_nd(x, constant(graph, HostTensor::of<std::int64_t>({9, 2}, places)));
  op_cases::Feeds feeds;
  feeds.emplace(x, HostTensor::of<float>({2, 3}, {0, 1, 2, 3, 4, 5}));
  const auto results = run_kernels({y, gradients(reduce_sum(y), {x})[0]}, feeds);
  EXPECT_EQ(results[0].values<float>()[0], 5);
  for (std::size_t i = 1; i < 9; ++i) EXPECT_TRUE(std::isnan(results[0].values<float>()[i])) << "place " << i;
  EXPECT_EQ(doubles_of(results[1]), (Doubles{0, 0, 0, 0, 0, 1}));
}

enum class Segments { sum, mean, max };

OpCase segment_case(const std::string& name, const Shape& ids, const Shape& rest, Segments kind, std::int64_t count) {
  CaseInput of_ids = moved_input(Dtype::i32, ids);
  of_ids.low = -1;
  of_ids.high = static_cast<double>(count);
  std::vector<std::int64_t> dims = ids.dims();
  dims.insert(dims.end(), rest.dims().begin(), rest.dims().end());
  CaseInput x = input(Shape(std::move(dims)));
  x.distinct = true;
  const auto length = static_cast<std::size_t>(rest.num_elements());
  return {.name = name,
          .inputs = {x, of_ids},
          .build =
              [=](Graph&, const std::vector<Value>& in) {
                auto* build = kind == Segments::sum ? segment_sum : kind == Segments::mean ? segment_mean : segment_max;
                // What is empty has the largest of nothing, whose gradient is of nothing.
                return std::vector{maximum(build(in[0], in[1], count, Where::here()), constant(in[0].graph(), -9.0F))};
              },
          .reference =
              [=](const std::vector<Doubles>& in) {
                Doubles y(static_cast<std::size_t>(count) * length, kind == Segments::max ? -9.0 : 0.0);
                std::map<std::int64_t, double> rows;
                for (std::size_t n = 0; n < in[1].size(); ++n) {
                  const auto id = static_cast<std::int64_t>(in[1][n]);
                  if (id < 0 || id >= count) continue;
                  rows[id] += 1;
                  for (std::size_t c = 0; c < length; ++c) {
                    double& to = y[static_cast<std::size_t>(id) * length + c];
                    to = kind == Segments::max ? std::max(to, in[0][n * length + c]) : to + in[0][n * length + c];
                  }
                }
                for (std::size_t i = 0; kind == Segments::mean && i < y.size(); ++i) {
                  y[i] /= std::max(1.0, rows[static_cast<std::int64_t>(i / length)]);
                }
                return std::vector<Doubles>{y};
              },
          .tolerance = {.relative = 16, .absolute = 64},
          .dynamic_batch = ids.rank() > 0,
          .same_bits_for_any_threads = true};
}

std::vector<OpCase> segment_cases() {
  std::vector<OpCase> cases;
  for (const auto& [name, kind] : {std::pair{"sum", Segments::sum}, {"mean", Segments::mean}, {"max", Segments::max}}) {
    cases.push_back(segment_case(text_of(name, "_of_rows"), {19}, {5}, kind, 6));
    cases.push_back(segment_case(text_of(name, "_of_numbers"), {4, 9}, {}, kind, 4));
    cases.push_back(segment_case(text_of(name, "_of_planes"), {3, 5}, {2, 3}, kind, 40));
  }
  return cases;
}

class SegmentFunctions : public testing::TestWithParam<OpCase> {};
TEST_P(SegmentFunctions, CombineTheRowsOfEachSegment) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, SegmentFunctions, testing::ValuesIn(segment_cases()), case_name);

TEST(SegmentFunctionsExactly, SegmentsWithoutRowsHaveSumsOfZeroAndNoLargest) {
  Graph graph;
  const Value x = placeholder(graph, "x", {3}), ids = constant(graph, HostTensor::of<std::int64_t>({3}, {2, 0, 2}));
  const Value sums = segment_sum(x, ids, 4), largest = segment_max(x, ids, 4), narrow = cast(x, Dtype::bf16);
  op_cases::Feeds feeds;
  feeds.emplace(x, HostTensor::of<float>({3}, {1, 2, 4}));
  const auto results = run_kernels({sums, segment_mean(narrow, ids, 4), largest, gradients(reduce_sum(sums), {x})[0],
                                    gradients(reduce_sum(largest), {x})[0]},
                                   feeds);
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(doubles_of(results[0]), (Doubles{2, 0, 5, 0}));
  EXPECT_EQ(results[1].dtype(), Dtype::bf16);
  EXPECT_EQ(doubles_of(results[1]), (Doubles{2, 0, 2.5, 0}));
  EXPECT_EQ(doubles_of(results[2]), (Doubles{2, kNone, 4, kNone}));
  EXPECT_EQ(doubles_of(results[3]), (Doubles{1, 1, 1}));
  EXPECT_EQ(doubles_of(results[4]), (Doubles{0, 1, 1}));
}

// ---- Derivatives.

void gather_nd_subject(SubjectBuilder& b) {
  const Value x = b.source({2, 3, b.number(1, 3)});
  b.result(gather_nd(x, b.whole_numbers({b.number(1, 4), b.number(1, 2)}, 0, 1)));
}
void segment_max_subject(SubjectBuilder& b) {
  const std::int64_t rows = b.number(3, 6);
  const Value x = b.source({rows, 2}, {.distinct = true});
  HostTensor ids(Dtype::i32, {rows});
  for (std::int64_t i = 0; i < rows; ++i) ids.values<std::int32_t>()[static_cast<std::size_t>(i)] = i * 2 % 3;
  b.result(segment_max(x, constant(b.graph, std::move(ids)), 3));
}

TEST(IndexFunctions, HaveTheDerivativesOfDifferencesInDouble) {
  for (const GradientSubject& subject :
       {GradientSubject{"gather_nd", gather_nd_subject}, GradientSubject{"segment_max", segment_max_subject}}) {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      const GradientFinding finding = check_gradients(gradient_registry(), subject, seed);
      EXPECT_TRUE(!finding.is_smooth || finding.is_right()) << subject.name << ", seed " << seed << finding.text();
    }
  }
}

TEST(IndexFunctions, SecondDerivativesOfSegmentsGoByTheRows) {
  // L = sum of (sum of a segment)^2: dL/dx = 2 s[id]; the derivative of sum (dL/dx)^2 / 8 is the number of rows times
  // s.
  Graph graph;
  const Value x = placeholder(graph, "x", {5});
  const Value ids = constant(graph, HostTensor::of<std::int32_t>({5}, {1, 0, 1, 7, 1}));
  const Value s = segment_sum(x, ids, 2);
  const Value first = gradients(reduce_sum(s * s), {x})[0];
  const Value second = gradients(reduce_sum(first * first) * 0.125F, {x})[0];
  op_cases::Feeds feeds;
  feeds.emplace(x, HostTensor::of<float>({5}, {1, 2, 3, 4, 5}));
  const auto results = run_kernels({first, second}, feeds);
  EXPECT_EQ(doubles_of(results[0]), (Doubles{18, 4, 18, 0, 18}));
  EXPECT_EQ(doubles_of(results[1]), (Doubles{27, 2, 27, 0, 27}));
}

// ---- Draws.

TEST(Multinomial, DrawsEachClassOnceAndBehindThemTheImpossible) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 5});
  op_cases::Feeds feeds;
  std::vector<float> rows;
  for (int i = 0; i < 100; ++i) rows.insert(rows.end(), {0, kNever, 1, kNever, -1});
  feeds.emplace(x, HostTensor::of<float>({100, 5}, rows));
  const Value y = multinomial(x, 5);
  EXPECT_EQ(y.type().text(), "i32[?,5]");
  const HostTensor found = std::move(run_kernels({y}, feeds)[0]);
  std::set<std::vector<std::int32_t>> orders;
  for (std::size_t i = 0; i < 500; i += 5) {
    const auto row = found.values<std::int32_t>().subspan(i, 5);
    EXPECT_EQ(row[3], 1);
    EXPECT_EQ(row[4], 3);
    EXPECT_EQ((std::set<std::int32_t>(row.begin(), row.begin() + 3)), (std::set<std::int32_t>{0, 2, 4}));
    orders.insert({row.begin(), row.begin() + 3});
  }
  EXPECT_EQ(orders.size(), 6U);
}

TEST(Multinomial, PairsComeAsOftenAsTheirProbabilities) {
  constexpr std::int64_t kRows = 60'000;
  const std::array<double, 3> p = {0.5, 0.3, 0.2};
  Graph graph;
  const Value row = log(constant(graph, HostTensor::of<float>({1, 3}, {0.5F, 0.3F, 0.2F})));
  const Value x = fill(graph, {kRows, 1}, 0) + row;
  const HostTensor found = std::move(run_kernels({multinomial(x, 2)}, {})[0]);
  std::map<std::pair<int, int>, double> share;
  for (std::size_t i = 0; i < 2 * kRows; i += 2) {
    share[{found.values<std::int32_t>()[i], found.values<std::int32_t>()[i + 1]}] += 1.0 / kRows;
  }
  EXPECT_EQ(share.size(), 6U);
  for (const auto& [pair, found_share] : share) {
    const double wanted = p.at(pair.first) * p.at(pair.second) / (1 - p.at(pair.first));
    EXPECT_NEAR(found_share, wanted, 5 * std::sqrt(wanted / kRows)) << pair.first << " " << pair.second;
  }
}

TEST(Multinomial, WithReplacementDrawsAsCategoricalDoes) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  const Value y = multinomial(x, 7, {.replacement = true});
  EXPECT_EQ(y.type().text(), "i32[2,7]");
  EXPECT_EQ(y.node().op().name, "categorical");
}

// ---- What is refused.

TEST(IndexFunctions, RefuseWhatDoesNotFitNamingIt) {
  Graph graph;
  const Value x = placeholder(graph, "x", {4, 3}), open = placeholder(graph, "open", {4, kDynamic});
  const Value ids = placeholder(graph, "ids", {4}, Dtype::i32), five = placeholder(graph, "five", {5}, Dtype::i32);
  const Value whole = placeholder(graph, "whole", {4, 3}, Dtype::i64);
  const int before = graph.num_nodes();
  expect_refused<ShapeError>([&] { gather_nd(x, ids); }, "gather_nd: 'x' is f32[4,3], 'ids' is i32[4]",
                             {"from 1 to 2"});
  expect_refused<ShapeError>([&] { gather_nd(open, whole); }, "gather_nd: 'open' is f32[4,?]", {"from 1 to 2"});
  expect_refused<ArgumentError>([&] { gather_nd(x, x); }, "gather_nd: 'x'", {"i32 or i64", "cast it"});
  expect_refused<ShapeError>([&] { segment_sum(x, five, 3); }, "segment_sum: 'x' is f32[4,3], 'five' is i32[5]",
                             {"the ids' shape"});
  expect_refused<ShapeError>([&] { segment_max(open, ids, 3); }, "segment_max: 'open'", {"dimensions that are known"});
  expect_refused<ArgumentError>([&] { segment_mean(x, ids, 0); }, "segment_mean: 'x'", {"0 segments"});
  expect_refused<ArgumentError>([&] { segment_sum(whole, ids, 2); }, "segment_sum: 'whole'", {"f32 or bf16"});
  expect_refused<ArgumentError>([&] { multinomial(x, 0); }, "multinomial: 'x'", {"0 draws"});
  expect_refused<ArgumentError>([&] { multinomial(x, 4); }, "multinomial: 'x'", {"4 draws", "replacement"});
  EXPECT_EQ(graph.num_nodes(), before);
}

TEST(IndexFunctions, HoldIdsToRowsWhereTheFeedDecides) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 3}), ids = placeholder(graph, "ids", {kDynamic}, Dtype::i32);
  for (const Value& y : {segment_sum(x, ids, 2), segment_mean(x, ids, 2), segment_max(x, ids, 2)}) {
    testing_support::Feeds feeds;
    feeds.emplace(x, HostTensor(Dtype::f32, {5, 3}));
    feeds.emplace(ids, HostTensor(Dtype::i32, {3}));
    const std::string text = error_text<ShapeError>([&] { (void)run_kernels({y}, feeds); });
    EXPECT_NE(text.find("of the ids 'ids' and of 'x' is 3"), std::string::npos) << text;
  }
}

TEST(IndexFunctions, GatherNdTakesRowsOfNothing) {
  Graph graph;
  const Value x = placeholder(graph, "x", {4, 2, 0}), places = placeholder(graph, "places", {3, 2}, Dtype::i32);
  EXPECT_EQ(gather_nd(x, places).type().text(), "f32[3,0]");
}

// ---- In sections.

/// A net that ranks, scans, scatters and draws. `cut`: behind which of its parts a section ends, a bit each.
struct Net {
  Net(Graph& graph, GraphSectionManager& manager, unsigned cut)
      : x(placeholder(graph, "x", {kDynamic, 6})), ids(placeholder(graph, "ids", {kDynamic}, Dtype::i32)) {
    std::optional<SectionScope> section(manager.new_section());
    const auto end_part = [&](unsigned part) {
      if ((cut >> part & 1) == 0) return;
      section.reset();
      section.emplace(manager.new_section());
    };
    const Value hidden = tanh(dense(x, {.features = 8}));
    const Value noisy = hidden + random_gumbel_like(hidden) * 0.1F;
    end_part(0);
    const TopK top = top_k(dense(cumsum(noisy, 1), {.features = 9}), 4);
    const Value drawn = multinomial(top.values, 2);
    end_part(1);
    const Value chosen = take_along(top.values, drawn);
    end_part(2);
    loss = mean(square(segment_sum(chosen, ids, 3))) + mean(segment_max(hidden, ids, 3)) +
           mean(one_hot(categorical(hidden), {.depth = 8}) * hidden);
  }
  Value x, ids, loss;
};

std::vector<HostTensor> trained(unsigned cut, bool by_sections) {
  Graph graph;
  GraphSectionManager manager(graph);
  const Net net(graph, manager, cut);
  return trained_bytes(graph, manager, net.loss, by_sections, [&](int step) {
    HostTensor x(Dtype::f32, {5, 6}), ids(Dtype::i32, {5});
    for (std::size_t i = 0; i < 30; ++i)
      x.values<float>()[i] = std::sin(static_cast<float>(i * 7 + static_cast<std::size_t>(step)));
    for (std::size_t i = 0; i < 5; ++i) ids.values<std::int32_t>()[i] = static_cast<std::int32_t>(i) % 3;
    return sectionflow::Feeds{{net.x, x}, {net.ids, ids}};
  });
}

TEST(IndexFunctionsInSections, TrainTheBytesOfTheWholeGraph) {
  const std::vector<HostTensor> whole = trained(0, false);
  EXPECT_TRUE(std::isfinite(whole[2].item<float>()));
  EXPECT_NE(whole[0].item<float>(), whole[2].item<float>());
  for (const unsigned cut : {0U, 1U, 2U, 5U, 7U}) {
    const std::vector<HostTensor> cycles = trained(cut, true);
    ASSERT_EQ(cycles.size(), whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
      EXPECT_TRUE(same_bits(cycles[i], whole[i])) << "cut " << cut << ", tensor " << i;
    }
  }
}

}  // namespace
}  // namespace sectionflow::index_functions

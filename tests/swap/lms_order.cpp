// An edit never takes a graph that runs and leaves one that does not: an update waits for all readers of its variable,
// which no edge of the graph says, and so nothing that they read may wait for the update.

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/ops/reduce.h"
#include "runtime/session.h"
#include "tests/support/contains.h"
#include "tests/swap/lms_graphs.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// A graph with updates, and what one run of it gives.
struct Updating {
  Graph graph;
  std::vector<Value> fetches;
  std::vector<Operation> targets;
  Value x;

  std::vector<HostTensor> run() {
    Session session(graph, {.threads = 1, .seed = 3, .check_schedules = true});
    session.initialize();
    HostTensor data(Dtype::f32, Shape{5, 5});
    auto values = data.values<float>();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) - 2.0F;
    auto results = session.run(fetches, {{x, data}}, {.targets = targets});
    for (const Value& variable : graph.values(kVariables)) results.push_back(session.read(variable));
    return results;
  }
};

bool same(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), bitwise_equal);
}

/// The reader at the far end of `late` also reads v; a node that data of `late` comes from waits for v's update.
void build_late_reader(Updating& u) {
  u.x = placeholder(u.graph, "x", {5, 5});
  const Value v = variable("v", fill(u.graph, {5, 5}, 1));
  const Value a = relu(u.x);
  const Operation update = assign(v, relu(u.x));
  const Value late = relu(relu(a));
  u.graph.add_control_edge(update, Operation(late));
  const Value first = add(relu(relu(late)), a);
  Value y = a;
  for (int i = 0; i < 5; ++i) y = relu(y);
  u.fetches = {first, add_n({a, v, y})};
  u.targets = {update};
}

TEST(LmsOrder, NoControlOperationFollowsAnUpdate) {
  Updating plain;
  build_late_reader(plain);
  const auto wanted = plain.run();
  for (const int groupby : {0, 2, 5}) {
    for (const int ahead : {1, 2}) {
      for (const int mode : {0, 1, 2, 3}) {
        Updating edited;
        build_late_reader(edited);
        const LmsOptions options{
            .swapout_threshold = 2, .swapin_groupby = groupby, .swapin_ahead = ahead, .sync_mode = mode};
        const LmsResult result = Lms(options).run(edited.graph);
        EXPECT_GT(result.num_swap_ins, 0);
        EXPECT_TRUE(same(edited.run(), wanted)) << groupby << " " << ahead << " " << mode;
      }
    }
  }
}

/// Chains with far readers, variables that are read here and there, their updates, and nodes that wait for updates. May
/// be a graph that cannot run.
void build_random(Updating& u, std::uint64_t seed) {
  std::uint64_t state = seed * 0x9E3779B97F4A7C15U + 1;
  const auto draw = [&](std::uint64_t below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % below;
  };
  u.x = placeholder(u.graph, "x", {5, 5});
  std::vector<Value> variables = {variable("v", fill(u.graph, {5, 5}, 1)), variable("w", fill(u.graph, {5, 5}, 2))};
  std::vector<Value> values = {relu(u.x)};
  for (int i = 0; i < 22; ++i) {
    const Value near = values.back(), far = values[draw(values.size())];
    switch (draw(6)) {
      case 0:
        values.push_back(add(near, variables[draw(2)]));
        break;
      case 1:
        values.push_back(add_n({far, variables[draw(2)], values[draw(values.size())]}));
        break;
      case 2:
        if (u.targets.size() < 3) u.targets.push_back(assign(variables[draw(2)], far));
        break;
      case 3:
        values.push_back(relu(far));
        if (!u.targets.empty()) {
          u.graph.add_control_edge(u.targets[draw(u.targets.size())], Operation(values.back()));
        }
        break;
      default:
        values.push_back(draw(2) == 0 ? relu(near) : add(near, far));
    }
  }
  u.fetches = {values.back(), values[values.size() / 2]};
}

TEST(LmsOrder, WhatRanBeforeTheEditRunsAfterItAndGivesTheSameBits) {
  int ran = 0, swapped = 0, waiting = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Updating plain;
    build_random(plain, seed);
    std::vector<HostTensor> wanted;
    try {
      wanted = plain.run();
    } catch (const ArgumentError&) {
      continue;
    }
    ++ran;
    waiting += plain.graph.num_control_edges() > 0 ? 1 : 0;
    for (const int mode : {0, 1, 2, 3}) {
      Updating edited;
      build_random(edited, seed);
      const LmsOptions options{.swapout_threshold = 1 + static_cast<int>(seed % 3),
                               .swapin_groupby = static_cast<int>(seed % 5),
                               .swapin_ahead = 1 + static_cast<int>(seed % 2),
                               .sync_mode = mode};
      swapped += Lms(options).run(edited.graph).num_swap_ins > 0 ? 1 : 0;
      try {
        EXPECT_TRUE(same(edited.run(), wanted)) << seed << " mode " << mode;
      } catch (const Error& error) {
        ADD_FAILURE() << seed << " mode " << mode << ": " << error.what();
      }
    }
  }
  EXPECT_GT(ran, 100);
  EXPECT_GT(swapped, 200);
  EXPECT_GT(waiting, 50);
}

}  // namespace
}  // namespace sectionflow

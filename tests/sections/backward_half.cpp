// A backward half with fetches of its own is another program than its forward half's: it finds all that was left, in
// whatever tier, and its cycle reaches as high in each tier as was planned.

#include <gtest/gtest.h>

#include <functional>

#include "graph/ops/layout.h"
#include "graph/ops/update.h"
#include "tests/sections/small_net.h"

namespace sectionflow::testing {
namespace {

/// Three sections; the first one's output has another name that only a fetch reads.
struct Renamed {
  explicit Renamed(SectionOptions options, SessionOptions session_options = {}) {
    const Value x = placeholder(graph, "x", {2, 4});
    {
      auto section = manager.new_section();
      border = relu(dense(x, {.features = 4}));
    }
    Value y;
    {
      auto section = manager.new_section();
      y = relu(dense(border, {.features = 4}));
    }
    {
      auto section = manager.new_section();
      name = reshape(border, {8});
      loss = mean(y * y);
    }
    manager.add_training_ops(Sgd{}, loss, {.sections = std::move(options)});
    manager.prepare_training();
    session_options.host_memory = session_options.disk = 1_MiB;
    session_options.threads = 1;
    session_options.check_schedules = true;
    session = std::make_unique<Session>(graph, session_options);
    session->initialize();
    feeds = {{x, data}};
  }
  TrainingState state() { return {read_variables(*session), {}}; }

  Graph graph;
  GraphSectionManager manager{graph};
  Value border, name, loss;
  HostTensor data = random_images({2, 4}, 3, 0);
  Feeds feeds;
  std::unique_ptr<Session> session;
};

TEST(BackwardHalf, FindsATensorOffTheDeviceByAnotherName) {
  for (const BorderPolicy borders : {BorderPolicy::keep, BorderPolicy::host, BorderPolicy::disk}) {
    for (const int prefetch : {0, 1, 2}) {
      for (const SectionIndex run : {0, 1, 2}) {
        const SectionOptions options{.borders = borders, .prefetch = prefetch};
        Renamed whole(options), halves(options);
        const auto [wanted] = whole.manager.run_full_cycle(*whole.session, {whole.name}, whole.feeds);
        (void)halves.manager.run_forward(*halves.session, std::vector<Value>{}, halves.feeds);
        std::vector<std::vector<Value>> fetches(3);
        fetches[static_cast<std::size_t>(run)] = {halves.name};
        const auto fetched = halves.manager.run_backward(*halves.session, fetches);
        EXPECT_TRUE(bitwise_equal(fetched[static_cast<std::size_t>(run)][0], wanted));
        EXPECT_EQ(first_difference(whole.state(), halves.state()), "");
      }
    }
  }
}

TEST(BackwardHalf, FindsItByAnotherNameWhereTheBudgetIsTooSmallToPrefetch) {
  const SectionOptions options{.borders = BorderPolicy::host, .prefetch = 1};
  ProgramReport unlimited;
  {
    Renamed probe(options);
    unlimited = probe.manager.plan(*probe.session, {probe.name}, types_of(probe.feeds));
  }
  int fitted = 0, refused = 0;
  const std::size_t least = unlimited.persistent_bytes, most = unlimited.planned_peak_bytes + 1024;
  for (std::size_t budget = least; budget < most; budget += (most - least) / 40) {
    try {
      Renamed t(options, {.device_memory = budget});
      (void)t.manager.run_forward(*t.session, std::vector<Value>{}, t.feeds);
      (void)t.manager.run_backward(*t.session, std::vector<std::vector<Value>>{{}, {}, {t.name}});
      ++fitted;
    } catch (const BudgetError&) {
      ++refused;
    }
  }
  EXPECT_GT(fitted, 0);
  EXPECT_GT(refused, 0);
}

/// Three sections: a tensor that skips the second, and a wide second one.
struct Skipping {
  explicit Skipping(SectionOptions options = {}) {
    images = placeholder(graph, "images", {kDynamic, 32, 32, 8});
    Value skip, x;
    {
      auto section = manager.new_section();
      x = conv2d(images, {.features = 16});
      skip = x * 2.0F;
    }
    {
      auto section = manager.new_section();
      x = relu(conv2d(x, {.features = 64, .kernel = {1, 1}}));
      x = relu(conv2d(x, {.features = 64, .kernel = {1, 1}}));
      middle = x = conv2d(x, {.features = 16, .kernel = {1, 1}});
    }
    {
      auto section = manager.new_section();
      x = conv2d(x + skip, {.features = 2, .stride = {4, 4}});
      loss = mean(x * x);
    }
    manager.add_training_ops(Sgd{.learning_rate = 1e-3F}, loss, {.sections = std::move(options)});
    manager.prepare_training();
    feeds = {{images, data}};
  }

  Graph graph;
  GraphSectionManager manager{graph};
  Value images, middle, loss;
  HostTensor data = random_images({8, 32, 32, 8}, 3, 0);
  Feeds feeds;
};

/// Both peaks of each tier, and the figures of the forward half's own program.
struct Peaks {
  std::size_t device = 0, host = 0, disk = 0;
  friend bool operator==(const Peaks&, const Peaks&) = default;
};
std::ostream& operator<<(std::ostream& out, const Peaks& peaks) {
  return out << "device " << peaks.device << ", host " << peaks.host << ", disk " << peaks.disk;
}
Peaks planned(const Statistics& s) {
  return {s.planned_peak_bytes, s.planned_host_peak_bytes, s.planned_disk_peak_bytes};
}
Peaks measured(const Statistics& s) {
  return {s.measured_peak_bytes, s.measured_host_peak_bytes, s.measured_disk_peak_bytes};
}

/// Runs a cycle by halves, the second with a fetch of its own; returns whether it fits.
bool run_halves(Skipping& t, Session& session) {
  try {
    (void)t.manager.run_forward(session, {t.loss}, t.feeds);
  } catch (const BudgetError&) {
    return false;
  }
  try {
    (void)t.manager.run_backward(session, std::vector<std::vector<Value>>{{}, {}, {t.middle}});
    return true;
  } catch (const BudgetError&) {
    t.manager.run_backward(session);
    return false;
  }
}

TEST(BackwardHalf, EveryTierMeasuresWhatWasPlannedUnderEveryBudget) {
  Skipping t;
  std::size_t least = 0;
  {
    Session session(t.graph, {.device_memory = 1_MiB, .threads = 1});
    least = t.manager.plan(session, {t.loss}, types_of(t.feeds)).planned_peak_bytes;
  }
  int fitted = 0, with_host = 0, with_disk = 0;
  for (const std::size_t host : {std::size_t{256_MiB}, std::size_t{3_MiB}}) {
    for (int part = 0; part < 12; ++part) {
      const std::size_t budget = least + least * static_cast<std::size_t>(part) / 10;
      Session session(t.graph, {.device_memory = budget, .host_memory = host, .disk = 64_MiB, .threads = 1});
      session.initialize();
      session.set_measuring(true);
      if (!run_halves(t, session)) continue;
      EXPECT_EQ(planned(session.statistics()), measured(session.statistics())) << budget << " " << host;
      ++fitted;
      with_host += session.statistics().planned_host_peak_bytes > 0 ? 1 : 0;
      with_disk += session.statistics().planned_disk_peak_bytes > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(fitted, 6);
  EXPECT_GT(with_host, 2);
  EXPECT_GT(with_disk, 0);
}

TEST(BackwardHalf, WhatTheForwardHalfHasTakenCountsInEveryTier) {
  for (const BorderPolicy borders : {BorderPolicy::host, BorderPolicy::disk}) {
    Skipping t({.borders = borders});
    Session session(t.graph, {.host_memory = 64_MiB, .disk = 64_MiB, .threads = 1});
    session.initialize();
    (void)t.manager.run_full_cycle(session, {t.loss}, t.feeds);
    const std::size_t reclaimed = session.statistics().bytes_reclaimed;
    const Peaks whole = planned(session.statistics());
    ASSERT_GT(reclaimed, 0U);
    session.clear_statistics();
    session.set_measuring(true);
    ASSERT_TRUE(run_halves(t, session));
    EXPECT_EQ(planned(session.statistics()), measured(session.statistics()));
    EXPECT_GE(session.statistics().planned_host_peak_bytes, whole.host);
    EXPECT_GE(session.statistics().planned_disk_peak_bytes, whole.disk);
    EXPECT_GE(session.statistics().bytes_reclaimed, reclaimed);
  }
}

TEST(BackwardHalf, MeasuringThatBeginsBetweenTheHalvesTouchesNothingAndTellsNothing) {
  const auto state_after = [](bool before, bool between) {
    Skipping t;
    Session session(t.graph, {.device_memory = 64_MiB, .threads = 1});
    session.initialize();
    session.set_measuring(before);
    (void)t.manager.run_forward(session, {t.loss}, t.feeds);
    session.set_measuring(between);
    (void)t.manager.run_backward(session, std::vector<std::vector<Value>>{{}, {}, {t.middle}});
    EXPECT_EQ(session.statistics().measured_peak_bytes,
              before && between ? session.statistics().planned_peak_bytes : 0U);
    return TrainingState{read_variables(session), {}};
  };
  const TrainingState unmeasured = state_after(false, false);
  EXPECT_EQ(first_difference(unmeasured, state_after(false, true)), "");
  EXPECT_EQ(first_difference(unmeasured, state_after(true, false)), "");
  EXPECT_EQ(first_difference(unmeasured, state_after(true, true)), "");
}

/// Two fetches: one that waits for an update, and one that makes that update wait for the run of the first section.
struct Settled {
  Settled() {
    const Value x = placeholder(graph, "x", {2, 4});
    const Value sum = variable("sum", fill(graph, {}, 1), {.trainable = false});
    Value a, b, tripled;
    {
      auto section = manager.new_section();
      a = dense(x, {.features = 4});
    }
    {
      auto section = manager.new_section();
      b = dense(a, {.features = 4});
    }
    {
      auto section = manager.new_section();
      const Value c = dense(b, {.features = 4});
      tripled = sum * 3.0F;
      loss = mean(c * c);
    }
    reading = a * tripled;
    const auto pairs = compute_gradients(loss);
    const Operation update = assign_add(sum, reduce_sum(pairs.back().gradient));
    graph.add_to_collection(kUpdateOperations, update);
    waiting = loss * 1.0F;
    graph.add_control_edge(update, Operation(waiting));
    behind = waiting + 1.0F;
    manager.add_training_ops(Sgd{}, pairs);
    manager.prepare_training();
    session.emplace(graph, SessionOptions{.threads = 1, .check_schedules = true});
    session->initialize();
    feeds = {{x, data}};
  }
  TrainingState state() { return {read_variables(*session), {}}; }

  Graph graph;
  GraphSectionManager manager{graph};
  Value loss, reading, waiting, behind;
  HostTensor data = random_images({2, 4}, 3, 0);
  Feeds feeds;
  std::optional<Session> session;
};

TEST(Fetches, OneThatWaitsForAnUpdateThatAnotherMakesWaitIsEvaluatedWithIt) {
  using Choice = std::function<std::vector<Value>(const Settled&)>;
  const std::vector<Choice> choices = {
      [](const Settled& s) { return std::vector<Value>{s.waiting}; },
      [](const Settled& s) { return std::vector<Value>{s.reading}; },
      [](const Settled& s) {
        return std::vector<Value>{s.waiting, s.reading};
      },
      [](const Settled& s) {
        return std::vector<Value>{s.reading, s.behind, s.waiting, s.loss};
      },
  };
  for (const Choice& choose : choices) {
    Settled whole, sections;
    for (int step = 0; step < 2; ++step) {
      const auto wanted =
          whole.session->run(choose(whole), whole.feeds, {.targets = whole.manager.training_operations()});
      const auto fetched = sections.manager.run_full_cycle(*sections.session, choose(sections), sections.feeds);
      ASSERT_EQ(fetched.size(), wanted.size());
      for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(bitwise_equal(wanted[i], fetched[i])) << i;
      EXPECT_EQ(first_difference(whole.state(), sections.state()), "");
    }
  }
}

TEST(BackwardHalf, FetchesWhatWaitsForAnUpdateThatAnotherFetchMakesWait) {
  Settled whole, halves;
  const auto wanted = whole.session->run(std::vector<Value>{whole.reading, whole.waiting, whole.behind}, whole.feeds,
                                         {.targets = whole.manager.training_operations()});
  (void)halves.manager.run_forward(*halves.session, std::vector<Value>{}, halves.feeds);
  const auto fetched = halves.manager.run_backward(
      *halves.session, std::vector<std::vector<Value>>{{halves.reading}, {}, {halves.waiting, halves.behind}});
  EXPECT_TRUE(bitwise_equal(wanted[0], fetched[0][0]));
  EXPECT_TRUE(bitwise_equal(wanted[1], fetched[2][0]));
  EXPECT_TRUE(bitwise_equal(wanted[2], fetched[2][1]));
  EXPECT_EQ(first_difference(whole.state(), halves.state()), "");
}

}  // namespace
}  // namespace sectionflow::testing

// Branches that are taken or not from step to step: the same bits under every strategy.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "fit/insert_swaps.h"
#include "graph/graph_file.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/control.h"
#include "graph/ops/dropout.h"
#include "graph/ops/update.h"
#include "runtime/engine.h"
#include "swap/lms.h"
#include "tests/fit/fit_case.h"
#include "tests/sections/image_nets.h"

namespace sectionflow::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

enum class Cuts { sections_around, within_branches, placed, none };

/// Blocks that are deep or shallow as the flag of a step says, with batch norms and dropout in both, one within the
/// other, and a variable that a branch shares with what is outside.
struct DeepOrShallow {
  explicit DeepOrShallow(Graph& graph)
      : in(graph),
        deep(placeholder(graph, "deep", {}, Dtype::boolean)),
        wide(placeholder(graph, "wide", {}, Dtype::boolean)),
        scale(variable("scale", fill(graph, {4}, 1.5))) {}

  Value block(Value x) const {
    return cond(
        deep,
        [&] {
          Value y = conv_norm_relu(x, in.is_training, 4) * scale;
          y = cond(
              wide, [&] { return y + conv_norm_relu(x, in.is_training, 4); }, [&] { return y; });
          return dropout(y, in.is_training, {.rate = 0.2F});
        },
        [&] {
          return cond(
              wide, [&] { return x * scale; }, [&] { return relu(x) + x; });
        });
  }

  std::function<Feeds(std::int64_t, FeedStore&)> feeds(bool training = true) const {
    return [net = *this, training](std::int64_t step, FeedStore& store) {
      Feeds feeds = net.in.feeds(nullptr, training)(step, store);
      feeds.push_back({net.deep, step % 2 == 0});
      feeds.push_back({net.wide, step % 3 == 0});
      return feeds;
    };
  }

  Inputs in;
  Value deep, wide, scale;
};

TrainingCase deep_or_shallow(Cuts cuts, const TrainingOptions& training = {}, const LmsOptions* lms = nullptr) {
  return {"deep or shallow", [=](Graph& graph, GraphSectionManager& manager) {
            const DeepOrShallow net(graph);
            const bool around = cuts == Cuts::sections_around, placed = cuts == Cuts::placed;
            Value x, loss;
            const auto in_section = [&](bool opens, const auto& build) {
              if (!opens) return build();
              auto section = manager.new_section();
              return build();
            };
            x = in_section(!placed, [&] { return conv_norm_relu(net.in.images, net.in.is_training, 4); });
            x = in_section(around, [&] { return net.block(x); });
            x = in_section(around, [&] { return net.block(x) + x; });
            if (cuts == Cuts::within_branches) {
              x = cond(
                  net.wide, [&] { return in_section(true, [&] { return conv_norm_relu(x, net.in.is_training, 4); }); },
                  [&] { return in_section(true, [&] { return conv_norm_relu(x, net.in.is_training, 4) + x; }); });
            }
            loss = in_section(!placed, [&] { return head_loss(x, net.in.labels); });
            PlaceCutsOptions options;
            options.sections = 3;
            options.batch = kBatch;
            options.session.threads = 1;
            if (placed) manager.place_cuts(options);
            manager.add_training_ops(Adam{.learning_rate = 1e-2F}, loss, training);
            manager.prepare_training();
            if (lms != nullptr) (void)Lms(*lms).run(graph);
            return TrainingNet{.loss = loss,
                               .feeds = net.feeds(),
                               .evaluated = {loss},
                               .evaluation_feeds = net.feeds(false),
                               .micro_batches = training.micro_batches};
          }};
}

/// Four fifths of what the largest step of the whole graph takes by itself.
std::size_t tight_budget() {
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainingNet net = deep_or_shallow(Cuts::none).build(graph, manager);
  Session session(graph, {.threads = 2});
  FeedStore store;
  const Feeds feeds = net.feeds(0, store);
  const RunOptions options{.targets = manager.training_operations()};
  return session.plan({net.loss}, types_of(feeds), options).planned_peak_bytes * 4 / 5;
}

TEST(CondInSections, EveryStrategyGivesTheSameBits) {
  for (const Cuts cuts : {Cuts::sections_around, Cuts::within_branches, Cuts::placed}) {
    expect_exact(deep_or_shallow(cuts), {.steps = 4});
  }
}

TEST(CondInSections, MicroBatchesClippingAndSkippedUpdatesGiveTheSameBits) {
  const TrainingOptions options{.clip_norm = 0.5F, .micro_batches = 2, .skip_non_finite = true};
  expect_exact(deep_or_shallow(Cuts::sections_around, options), {.steps = 4});
}

TEST(CondInSections, GivesTheSameBitsWhereTensorsOfTheWholeGraphAreOffloaded) {
  const TrainingRecord plain = record_training(deep_or_shallow(Cuts::none), How::whole, {.steps = 4});
  EXPECT_TRUE(plain.complaints.empty());
  TrainOptions swaps{.steps = 4};
  swaps.session.device_memory = tight_budget();
  swaps.on_session = [](How, const Graph&, Session& session) { insert_swaps(session); };
  const TrainingRecord swapped = record_training(deep_or_shallow(Cuts::none), How::whole, swaps);
  EXPECT_EQ(first_difference(plain, swapped), "");
  const LmsOptions lms{.swapout_threshold = 1, .swapin_groupby = 0, .swapin_ahead = 1};
  EXPECT_EQ(first_difference(plain, record_training(deep_or_shallow(Cuts::none, {}, &lms), How::whole, {.steps = 4})),
            "");
}

TEST(CondInSections, GivesTheSameBitsUnderFitBudget) {
  for (const Cuts cuts : {Cuts::none, Cuts::sections_around}) {
    const TrainingRecord plain = record_training(deep_or_shallow(cuts), How::whole, {.steps = 4});
    for (const bool may_swap : {false, true}) {
      TrainOptions fitted{.steps = 4};
      fitted.session.device_memory = tight_budget();
      fitted.on_session = [=](How, const Graph&, Session& session) {
        fit_budget(session, few({.may_swap = may_swap, .effort = 100'000}));
      };
      const How how = cuts == Cuts::none ? How::whole : How::mixed;
      const TrainingRecord record = record_training(deep_or_shallow(cuts), how, fitted);
      EXPECT_EQ(first_difference(plain, record), "");
    }
  }
}

TEST(CondInSections, ALoadedGraphTrainsAlike) {
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainingNet net = deep_or_shallow(Cuts::sections_around).build(graph, manager);
  Graph loaded;
  load_graph_text(loaded, graph_text(graph));
  EXPECT_EQ(graph_text(loaded), graph_text(graph));
  GraphSectionManager restored(loaded);
  restored.restore_sections();
  restored.prepare_training();
  Session first(graph, {.threads = 1, .seed = 3}), second(loaded, {.threads = 1, .seed = 3});
  first.initialize();
  second.initialize();
  const Value loss = loaded.node(net.loss.node().id()).output();
  for (int step = 0; step < 4; ++step) {
    FeedStore store;
    const Feeds feeds = net.feeds(step, store);
    Feeds of_loaded;
    for (const Feed& feed : feeds) of_loaded.push_back({loaded.find(feed.value.name()).output(), feed.data});
    EXPECT_TRUE(bitwise_equal(manager.run_full_cycle(first, {net.loss}, feeds)[0],
                              restored.run_full_cycle(second, {loss}, of_loaded)[0]));
  }
  for (const Value& each : graph.values(kVariables)) {
    EXPECT_TRUE(bitwise_equal(first.read(each), second.read(loaded.find(each.name()).output()))) << each.name();
  }
}

// ---- What is not taken is not there.

/// Sums a square, or a deep and large branch of `x`; trained in two sections.
struct LargeBranch {
  explicit LargeBranch(bool has_branch) {
    const auto large = [&] {
      Value y = x;
      for (int i = 0; i < 6; ++i) y = tanh(dense(y, {.features = 64}));
      return mean(y);
    };
    {
      auto section = manager.new_section();
      y = x * variable("w", fill(graph, {16, 64}, 0.5));
    }
    {
      auto section = manager.new_section();
      loss = has_branch ? cond(flag, large, [&] { return mean(square(y)); }) : mean(square(y));
    }
    // Variables of the branch are there in any case: none is trained here but w, which both graphs have.
    manager.add_training_ops(Sgd{}, loss, {.variables = {graph.find("w").output()}});
    manager.prepare_training();
  }
  FeedTypes types(bool taken) const { return {{x, Shape{16, 64}}, {flag, taken}}; }

  Graph graph;
  GraphSectionManager manager{graph};
  Value x = placeholder(graph, "x", {16, 64}), flag = placeholder(graph, "flag", {}, Dtype::boolean);
  Value y, loss;
};

std::size_t transient_bytes(const ProgramReport& report) {
  return report.planned_peak_bytes - report.persistent_bytes;
}

TEST(CondInSections, TheBranchThatIsNotTakenIsInNoStepAndTakesNoMemory) {
  LargeBranch with(true), without(false);
  Session session(with.graph, {.threads = 1, .check_schedules = true}), plain(without.graph, {.threads = 1});
  for (const bool in_sections : {false, true}) {
    const auto planned = [&](Session& in, LargeBranch& net, bool taken) {
      return in_sections ? net.manager.plan(in, {net.loss}, net.types(taken))
                         : in.plan({net.loss}, net.types(taken), {.targets = net.manager.training_operations()});
    };
    const ProgramReport wanted = planned(plain, without, false), found = planned(session, with, false);
    EXPECT_EQ(transient_bytes(found), transient_bytes(wanted));
    int num_taken = 0;
    for (const Step& step : engine(session).latest_program()->schedule.steps) {
      const Branch branch = with.graph.node(step.node).branch();
      EXPECT_TRUE(!branch.exists() || !branch.when) << with.graph.node(step.node).label();
      num_taken += branch.exists() ? 1 : 0;
    }
    EXPECT_GT(num_taken, 0);
  }
}

TEST(CondInSections, AFetchOfABranchThatIsNotTakenIsRefused) {
  Graph graph;
  const Value flag = placeholder(graph, "flag", {}, Dtype::boolean), x = placeholder(graph, "x", {2});
  Value inner;
  (void)cond(
      flag, [&] { return inner = x * 2.0F; }, [&] { return x; });
  Session session(graph, {.threads = 1});
  session.initialize();
  const HostTensor fed = HostTensor::of<float>({2}, {1, 2});
  EXPECT_EQ(session.run({inner}, {{x, fed}, {flag, true}})[0].values<float>()[1], 4.0F);
  EXPECT_THAT(([&] {
                (void)session.run({inner}, {{x, fed}, {flag, false}});
              }),
              ThrowsMessage<ArgumentError>(HasSubstr("a branch that is not taken")));
}

TEST(CondInSections, AFlagWithinABranchThatIsNotTakenNeedNotBeFed) {
  Graph graph;
  const Value outer = placeholder(graph, "outer", {}, Dtype::boolean), x = placeholder(graph, "x", {2});
  const Value inner = placeholder(graph, "inner", {}, Dtype::boolean), kept = variable("kept", fill(graph, {2}, 0));
  std::vector<Operation> updates;
  const auto keep = [&] {
    updates.push_back(assign(kept, x));
    return x * 2.0F;
  };
  const auto nested = [&] { return cond(inner, keep, [&] { return x * 3.0F; }); };
  const Value y = cond(outer, nested, [&] { return x; });
  Session session(graph, {.threads = 1});
  session.initialize();
  const HostTensor fed = HostTensor::of<float>({2}, {1, 2});
  EXPECT_EQ(session.run({y}, {{x, fed}, {outer, false}}, {.targets = updates})[0].values<float>()[1], 2);
  EXPECT_EQ(session.read(kept).values<float>()[1], 0);
  EXPECT_THAT(([&] {
                (void)session.run({y}, {{x, fed}, {outer, true}}, {.targets = updates});
              }),
              ThrowsMessage<ArgumentError>(HasSubstr("'inner'")));
}

}  // namespace
}  // namespace sectionflow::testing

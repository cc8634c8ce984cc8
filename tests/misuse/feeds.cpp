// Misuse of a session: feeds, fetches, budgets, order of calls.

#include <limits>

#include "base/bytes.h"
#include "tests/misuse/misuse_case.h"

namespace sectionflow::testing {
namespace {

/// The small net, and calls with wrong feeds.
struct Net : SmallTraining {
  using SmallTraining::SmallTraining;
  void cycle(const Feeds& feeds, Where where) { (void)manager.run_full_cycle(*session, {net.loss}, feeds, {}, where); }
  std::string place(Value value) const { return value.node().place(); }
  State state = state_of(*this);
};

TEST(MisuseFeeds, AMissingFeedNamesItsReaderItsSectionAndWhatWasFed) {
  Net t;
  const std::string reader = t.place(t.net.loss.node().inputs()[0]);
  expect_refused<ArgumentError>(
      t.state,
      [&] {
        t.cycle({{t.net.images, t.net.x}, {t.net.is_training, true}}, Where::here());
      },
      "SF-E301 ArgumentError: placeholder 'labels' i32[?] is not fed"
      "\n  where:   " +
          line(__LINE__ - 4) +
          "\n  fed:     'images' f32[6,8,8,3], 'is_training' bool[]"
          "\n  needed:  by softmax_cross_entropy 'softmax_cross_entropy', " +
          reader + "\n  hint:    add {labels, ...} to the feeds");
  expect_trains(t);
}

TEST(MisuseFeeds, AMissingFeedThatIsNearlyAnotherSaysSo) {
  Graph graph;
  GraphSectionManager manager(graph);
  SmallNet net(graph, manager);
  const Value other = placeholder(graph, "label", {kDynamic}, Dtype::i32);
  manager.add_training_ops(Sgd{}, net.loss);
  manager.prepare_training();
  Session session(graph, {.threads = 1});
  session.initialize();
  const std::string reader = net.loss.node().inputs()[0].node().place();
  expect_refused<ArgumentError>([&] { return StateHash().add(graph).add(manager).add(session).value(); },
                                [&] {
                                  (void)manager.run_full_cycle(
                                      session, {net.loss},
                                      {{net.images, net.x}, {other, net.y}, {net.is_training, true}});
                                },
                                "SF-E301 ArgumentError: placeholder 'labels' i32[?] is not fed"
                                "\n  where:   " +
                                    line(__LINE__ - 6) +
                                    "\n  fed:     'images' f32[6,8,8,3], 'is_training' bool[], 'label' i32[6]"
                                    "\n  needed:  by softmax_cross_entropy 'softmax_cross_entropy', " +
                                    reader + "\n  hint:    'label' was fed; was 'labels' meant?");
  (void)manager.run_full_cycle(session, {net.loss}, net.feeds());
  EXPECT_EQ(session.completed_cycles(), 1U);
}

TEST(MisuseFeeds, AMissingBooleanThatChoosesKernels) {
  Net t;
  const std::string text = whole_error_text<ArgumentError>([&] {
    t.cycle({{t.net.images, t.net.x}, {t.net.labels, t.net.y}}, Where::here());
  });
  EXPECT_EQ(
      text.find("SF-E301 ArgumentError: placeholder 'is_training' bool[] is not fed\n  where:   " + line(__LINE__ - 3) +
                "\n  fed:     'images' f32[6,8,8,3], 'labels' i32[6]\n  needed:  by update_moving_average"),
      0U)
      << text;
  expect_trains(t);
}

TEST(MisuseFeeds, AFeedOfAnotherGraphNamesTheNearestOfThisOne) {
  Net t;
  Graph other;
  const Value image = placeholder(other, "image", {kDynamic, 8, 8, 3});
  expect_refused<ArgumentError>(
      t.state,
      [&] {
        t.cycle({{image, t.net.x}, {t.net.labels, t.net.y}, {t.net.is_training, true}}, Where::here());
      },
      "SF-E302 ArgumentError: feed of 'image': that value does not belong to the graph of this session"
      "\n  where:   " +
          line(__LINE__ - 4) + "\n  hint:    this graph has 'images'; is that the one that is meant?");
  expect_refused<ArgumentError>(
      t.state,
      [&] {
        t.cycle({{Value(), t.net.x}}, Where::here());
      },
      "SF-E302 ArgumentError: feed of '': that value does not belong to the graph of this session"
      "\n  where:   " +
          line(__LINE__ - 4) + "\n  hint:    take a value of the session's own graph");
  expect_trains(t);
}

TEST(MisuseFeeds, AWrongShapeTellsBoth) {
  Net t;
  const HostTensor wrong(Dtype::f32, {6, 8, 9, 3});
  expect_refused<ShapeError>(
      t.state,
      [&] {
        t.cycle({{t.net.images, wrong}, {t.net.labels, t.net.y}, {t.net.is_training, true}}, Where::here());
      },
      "SF-E303 ShapeError: feed of 'images' has the shape [6,8,9,3]; wanted f32[?,8,8,3]"
      "\n  where:   " +
          line(__LINE__ - 4) + "\n  made:    " + t.place(t.net.images));
  expect_trains(t);
}

TEST(MisuseFeeds, BatchesOfTwoSizesAreRefusedBeforeAnythingRuns) {
  Net t;
  const HostTensor labels(Dtype::i32, {5});
  const auto call = [&] {
    t.cycle({{t.net.images, t.net.x}, {t.net.labels, labels}, {t.net.is_training, true}}, Where::here());
  };
  const std::uint64_t before = t.state();
  const std::string text = whole_error_text<ShapeError>(call);
  EXPECT_EQ(text.find("SF-E020 ShapeError: softmax_cross_entropy 'softmax_cross_entropy'"), 0U) << text;
  EXPECT_NE(text.find("\n  where:   " + t.place(t.net.loss.node().inputs()[0]) + "\n  call:    " + line(__LINE__ - 5)),
            std::string::npos)
      << text;
  EXPECT_EQ(t.state(), before);
  expect_trains(t);
}

TEST(MisuseFeeds, AWrongDtypeTellsBoth) {
  Net t;
  const HostTensor wrong(Dtype::i64, {6});
  expect_refused<ArgumentError>(
      t.state,
      [&] {
        t.cycle({{t.net.images, t.net.x}, {t.net.labels, wrong}, {t.net.is_training, true}}, Where::here());
      },
      "SF-E304 ArgumentError: feed of 'labels' is i64[6]; wanted i32[?]"
      "\n  where:   " +
          line(__LINE__ - 4) + "\n  made:    " + t.place(t.net.labels) +
          "\n  hint:    feed data of i32, or make the placeholder one of i64: nothing is converted in silence");
  expect_trains(t);
}

TEST(MisuseFeeds, AComputedTensorCannotBeFedAlsoWhereItCrossesACut) {
  Net t;
  const Value crossing = t.net.outputs[0];
  const HostTensor data(Dtype::f32, {6, 8, 8, 4});
  Feeds feeds = t.net.feeds();
  feeds.push_back({crossing, data});
  expect_refused<ArgumentError>(
      t.state, [&] { t.cycle(feeds, Where::here()); },
      "SF-E305 ArgumentError: feed of 'relu': it is computed by relu; wanted a placeholder"
      "\n  where:   " +
          line(__LINE__ - 3) + "\n  made:    " + t.place(crossing) +
          "\n  hint:    make it a placeholder, or compute from one: what is computed cannot be fed");
  expect_trains(t);
}

TEST(MisuseFeeds, AFeedThatComesTwice) {
  Net t;
  Feeds feeds = t.net.feeds();
  feeds.push_back({t.net.labels, t.net.y});
  expect_refused<ArgumentError>(
      t.state, [&] { t.cycle(feeds, Where::here()); },
      "SF-E306 ArgumentError: 'labels' is fed twice"
      "\n  where:   " +
          line(__LINE__ - 3) + "\n  hint:    drop one of the two feeds");
  expect_trains(t);
}

TEST(MisuseFeeds, NaNAndInfinityAreRefusedWhereTheCheckIsOn) {
  Net t({.threads = 2, .check_schedules = true, .check_feeds = true});
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    HostTensor images = random_images({6, 8, 8, 3}, 3, 0);
    images.values<float>()[7] = bad;
    const Feeds feeds = {{t.net.images, images}, {t.net.labels, t.net.y}, {t.net.is_training, true}};
    const auto told = [&](int number) {
      return "SF-E307 ArgumentError: feed of 'images' f32[6,8,8,3]: element 7 is NaN or infinite; wanted finite "
             "numbers, "
             "since check_feeds is on\n  where:   " +
             line(number) + "\n  made:    " + t.place(t.net.images);
    };
    expect_refused<ArgumentError>(
        t.state, [&] { t.cycle(feeds, Where::here()); }, told(__LINE__));
    expect_refused<ArgumentError>(
        t.state, [&] { (void)t.session->run(t.net.loss, feeds); }, told(__LINE__));
    expect_refused<ArgumentError>(
        t.state, [&] { (void)t.manager.run_forward(*t.session, {t.net.loss}, feeds); }, told(__LINE__));
  }
  expect_trains(t);
}

TEST(MisuseFeeds, AFetchOfAnotherGraphNamesTheNearestOfThisOne) {
  Net t;
  Graph other;
  const Value means = placeholder(other, "reduce_means", {});
  const std::string golden = "\n  hint:    this graph has 'reduce_mean'; is that the one that is meant?";
  const auto told = [&](int number) {
    return "SF-E311 ArgumentError: fetch 'reduce_means' does not belong to the graph of this session\n  where:   " +
           line(number) + golden;
  };
  expect_refused<ArgumentError>(
      t.state, [&] { (void)t.manager.run_full_cycle(*t.session, {means}, t.net.feeds()); }, told(__LINE__));
  expect_refused<ArgumentError>(
      t.state, [&] { (void)t.session->run(means, t.net.feeds()); }, told(__LINE__));
  expect_trains(t);
}

TEST(MisuseFeeds, ACapBelowTheMinimumTellsTheMinimumTheOperationAndItsSection) {
  Net probe;
  const ProgramReport report = probe.manager.plan(*probe.session, {probe.net.loss}, probe.net.types(6));
  Net t({.device_memory = report.planned_peak_bytes - 1, .threads = 2}, {.borders = BorderPolicy::keep});
  const std::uint64_t before = t.state();
  try {
    t.cycle(t.net.feeds(), Where::here());
    FAIL() << "a byte too little is enough";
  } catch (const BudgetError& error) {
    EXPECT_EQ(error.minimum_bytes, report.planned_peak_bytes);
    EXPECT_EQ(error.code(), ErrorCode::budget);
    EXPECT_EQ(error.fact("where"), line(__LINE__ - 5));
    const std::string text = error.what();
    EXPECT_EQ(text.find(text_of("SF-E101 BudgetError: the program needs ", bytes_text(report.planned_peak_bytes), " (",
                                report.planned_peak_bytes, " bytes), device_memory is ")),
              0U)
        << text;
    EXPECT_NE(text.find("\n  fullest at: " + report.fullest_step + "\n"), std::string::npos) << text;
    EXPECT_NE(report.fullest_step.find(", section "), std::string::npos) << "the step's section";
    EXPECT_NE(text.find(text_of("\n  minimum: device_memory of ", report.planned_peak_bytes, " bytes\n")),
              std::string::npos)
        << text;
  }
  EXPECT_EQ(t.state(), before);
  const auto [logits] = t.session->run({t.net.logits}, {{t.net.images, t.net.x}, {t.net.is_training, false}});
  EXPECT_EQ(logits.shape(), (Shape{6, 5})) << "what fits still runs";
  Net enough({.device_memory = report.planned_peak_bytes, .threads = 2});
  expect_trains(enough);
}

TEST(MisuseFeeds, ASessionWithoutValues) {
  Graph graph;
  const Value w = variable("w", fill(graph, {2}, 1));
  Session session(graph, {.threads = 1});
  const State state = [&] {
    return StateHash().add(graph).add(static_cast<std::int64_t>(session.completed_cycles())).value();
  };
  expect_refused<ArgumentError>(
      state, [&] { (void)session.run(w); },
      "SF-E321 ArgumentError: the session's variables have no values yet"
      "\n  where:   " +
          line(__LINE__ - 3) + "\n  hint:    call session.initialize() first");
  expect_refused<ArgumentError>(
      state, [&] { (void)session.read(w); },
      "SF-E321 ArgumentError: read of 'w': it has no value yet"
      "\n  where:   " +
          line(__LINE__ - 3) + "\n  hint:    call session.initialize() first");
  session.initialize();
  const Value late = variable("late", fill(graph, {2}, 1));
  const int made = __LINE__ - 1;
  expect_refused<ArgumentError>(
      state, [&] { (void)session.run(late); },
      "SF-E321 ArgumentError: variable 'late' was made after session.initialize()"
      "\n  where:   " +
          line(__LINE__ - 3) + "\n  variable: " + line(made) +
          "\n  hint:    make all variables, optimisers included, before it");
  EXPECT_EQ(session.run(w).values<float>()[1], 1.0F);
}

TEST(MisuseFeeds, CallsBetweenTheHalvesOfACycle) {
  Net t;
  (void)t.manager.run_forward(*t.session, {t.net.loss}, t.net.feeds());
  const auto golden = [](const char* call, int number) {
    return text_of("SF-E322 ArgumentError: ", call,
                   ": the backward half of a cycle is pending; call run_backward or discard_forward first\n  where:   ",
                   line(number));
  };
  const State counters = [&] { return StateHash().add(t.graph).add(t.manager).value(); };
  expect_refused<ArgumentError>(
      counters, [&] { t.cycle(t.net.feeds(), Where::here()); }, golden("run", __LINE__));
  expect_refused<ArgumentError>(
      counters, [&] { t.session->initialize(); }, golden("initialize()", __LINE__));
  t.manager.run_backward(*t.session);
  expect_refused<ArgumentError>(
      t.state, [&] { t.manager.run_backward(*t.session); },
      "SF-E322 ArgumentError: run_backward: no forward pass is pending; call run_forward first"
      "\n  where:   " +
          line(__LINE__ - 3));
  EXPECT_EQ(t.session->completed_cycles(), 1U);
}

}  // namespace
}  // namespace sectionflow::testing

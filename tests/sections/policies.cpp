// Where the tensors of sections are kept: what the user says is done, to the byte, and what is said wrongly is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "tests/sections/small_net.h"
#include "tests/support/offload_cases.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

/// A small training in a session of the case; the budget is left to the caller.
SmallTraining training_of(const OffloadCase& offload_case, std::size_t device_memory = 0) {
  SessionOptions options = offload_case.session;
  options.device_memory = device_memory;
  options.threads = 2;
  options.check_schedules = true;
  return SmallTraining(options, offload_case.sections);
}

/// How many steps of the cycle copy the value out and back, and the pass in which it first comes back.
struct Copies {
  int out = 0, disk = 0, in = 0;
  std::string returned_in{};
};

Copies copies_of(SmallTraining& t, Value value) {
  Trace trace;
  t.session->set_trace(&trace);
  (void)t.manager.run_full_cycle(*t.session, {t.net.loss}, t.net.feeds());
  t.session->set_trace(nullptr);
  Copies copies;
  for (const Trace::Event& event : trace.events()) {
    if (event.node != value.node().id()) continue;
    copies.out += event.kind == StepKind::copy_out ? 1 : 0;
    copies.disk += event.kind == StepKind::disk_write ? 1 : 0;
    if (event.kind != StepKind::copy_in) continue;
    if (++copies.in == 1) copies.returned_in = event.pass.text();
  }
  return copies;
}

TEST(Policies, KeepCopiesNothingAndHostAndDiskAlwaysCopyEveryBorder) {
  SmallTraining kept({.threads = 2}, {.borders = BorderPolicy::keep});
  const ProgramReport plain = kept.manager.plan(*kept.session, {kept.net.loss}, kept.net.types(6));
  EXPECT_EQ(plain.bytes_out + plain.bytes_in + plain.host_peak_bytes, 0U);
  // The section's output is read by the next section and by its own backward run.
  for (BorderPolicy policy : {BorderPolicy::host, BorderPolicy::disk}) {
    SmallTraining t({.disk = 16_MiB, .threads = 2}, {.borders = policy});
    const ProgramReport report = t.manager.plan(*t.session, {t.net.loss}, t.net.types(6));
    EXPECT_GT(report.bytes_out, 0U);
    EXPECT_EQ(report.bytes_in, report.bytes_out);
    EXPECT_EQ(report.disk_bytes_out, policy == BorderPolicy::disk ? report.bytes_out : 0U);
    EXPECT_EQ(report.disk_bytes_in, report.disk_bytes_out);
    EXPECT_EQ(report.recomputed_operations, plain.recomputed_operations) << "interiors are computed again as before";
    for (int k = 0; k < 2; ++k) {
      const Copies copies = copies_of(t, t.net.outputs[static_cast<std::size_t>(k)]);
      EXPECT_EQ(copies.out, 1) << k;
      EXPECT_EQ(copies.in, 1) << k;
      EXPECT_EQ(copies.disk, policy == BorderPolicy::disk ? 1 : 0) << k;
    }
  }
}

TEST(Policies, AutomaticBordersCopyNothingWhileTheyFitTheBudget) {
  SmallTraining t;
  const ProgramReport report = t.manager.plan(*t.session, {t.net.loss}, t.net.types(6));
  EXPECT_EQ(report.bytes_out, 0U);
}

TEST(Policies, AutomaticBordersAreOffloadedUnderABudgetInWhichTheyCannotStay) {
  SmallTraining kept({.threads = 2}, {.borders = BorderPolicy::keep});
  const std::size_t peak = kept.manager.plan(*kept.session, {kept.net.loss}, kept.net.types(6)).planned_peak_bytes;
  SmallTraining t({.device_memory = peak - 1, .threads = 2, .check_schedules = true});
  const ProgramReport report = t.manager.plan(*t.session, {t.net.loss}, t.net.types(6));
  EXPECT_TRUE(report.fits);
  EXPECT_GT(report.bytes_out, 0U);
  (void)t.manager.run_full_cycle(*t.session, {t.net.loss}, t.net.feeds());
  (void)kept.manager.run_full_cycle(*kept.session, {kept.net.loss}, kept.net.feeds());
  EXPECT_EQ(first_difference(kept.state(), t.state()), "");
}

TEST(Policies, PrefetchSaysHowManyRunsAheadATensorMayComeBack) {
  // The images' section is read last; its output goes out in the forward pass.
  const auto returned = [](int prefetch) {
    SmallTraining t({.threads = 2}, {.borders = BorderPolicy::host, .prefetch = prefetch});
    return copies_of(t, t.net.outputs[0]).returned_in;
  };
  // Section 1 computes its interior again from it; the copy may stand in the run before.
  EXPECT_EQ(returned(0), "forward 1 (again)");
  EXPECT_THAT(returned(1), ::testing::AnyOf("forward 1 (again)", "forward 2 (again)", "backward 2"));
}

TEST(Policies, KeptAndSwappedInteriorsAreNotComputedAgain) {
  for (InteriorPolicy interior : {InteriorPolicy::keep, InteriorPolicy::swap}) {
    SmallTraining t({.threads = 2}, {.borders = BorderPolicy::keep, .interior = interior});
    const ProgramReport report = t.manager.plan(*t.session, {t.net.loss}, t.net.types(6));
    EXPECT_EQ(report.recomputed_operations, 0);
    EXPECT_EQ(report.bytes_out > 0, interior == InteriorPolicy::swap);
    EXPECT_EQ(copies_of(t, t.net.convolved[0]).out, interior == InteriorPolicy::swap ? 1 : 0);
  }
}

TEST(Policies, AutomaticInteriorsStayWhileThereIsRoomAndGoBitByBit) {
  SectionOptions automatic;
  automatic.interior = InteriorPolicy::automatic;
  SmallTraining ample({.threads = 2}, automatic);
  const ProgramReport most = ample.manager.plan(*ample.session, {ample.net.loss}, ample.net.types(6));
  EXPECT_EQ(most.recomputed_operations, 0);
  EXPECT_EQ(most.bytes_out, 0U);
  SmallTraining again;
  const ProgramReport least = again.manager.plan(*again.session, {again.net.loss}, again.net.types(6));
  ASSERT_LT(least.planned_peak_bytes, most.planned_peak_bytes);
  for (std::size_t percent : {0U, 25U, 50U, 75U, 99U}) {
    const std::size_t between = most.planned_peak_bytes - least.planned_peak_bytes;
    const std::size_t budget = least.planned_peak_bytes + between * percent / 100;
    SmallTraining t({.device_memory = budget, .threads = 2, .check_schedules = true}, automatic);
    const ProgramReport report = t.manager.plan(*t.session, {t.net.loss}, t.net.types(6));
    EXPECT_TRUE(report.fits) << percent;
    EXPECT_LE(report.recomputed_operations, least.recomputed_operations) << percent;
    EXPECT_GT(report.recomputed_operations + static_cast<int>(report.bytes_out), 0) << percent;
    EXPECT_GT(report.predicted_seconds, 0) << percent;
    t.session->set_measuring(true);
    (void)t.manager.run_full_cycle(*t.session, {t.net.loss}, t.net.feeds());
    EXPECT_EQ(t.session->statistics().measured_peak_bytes, report.planned_peak_bytes) << percent;
  }
}

TEST(Policies, ATensorHasItsOwnPolicyByNameWhereverItIsMade) {
  SmallTraining probe;
  const std::string border = probe.net.outputs[0].name(), inner = probe.net.convolved[1].name();
  SectionOptions options{.borders = BorderPolicy::keep};
  options.tensors = {{border, BorderPolicy::host}, {inner, BorderPolicy::disk}};
  SmallTraining t({.disk = 16_MiB, .threads = 2}, options);
  EXPECT_EQ(copies_of(t, t.net.outputs[0]).out, 1);
  EXPECT_EQ(copies_of(t, t.net.outputs[1]).out, 0);
  EXPECT_EQ(copies_of(t, t.net.convolved[1]).disk, 1) << "kept for the backward run, on disk";
  EXPECT_EQ(copies_of(t, t.net.convolved[0]).out, 0);
  (void)probe.manager.run_full_cycle(*probe.session, {probe.net.loss}, probe.net.feeds());
  for (int i = 0; i < 3; ++i) (void)probe.manager.run_full_cycle(*probe.session, {probe.net.loss}, probe.net.feeds());
  EXPECT_EQ(first_difference(probe.state(), t.state()), "");
}

TEST(Policies, ASectionHasOptionsOfItsOwnAndTheOthersTheDefault) {
  Graph graph;
  GraphSectionManager manager(graph);
  SmallInputs in(graph);
  Value a, b, loss;
  {
    auto section = manager.new_section("stem", {.borders = BorderPolicy::host});
    a = relu(conv2d(in.images, {.features = 4}));
  }
  {
    auto section = manager.new_section("body");
    b = relu(conv2d(a, {.features = 4}));
  }
  {
    auto section = manager.new_section();
    loss = mean(softmax_cross_entropy(dense(reduce_mean(b, {.axes = {1, 2}}), {.features = 5}), in.labels));
  }
  manager.add_training_ops(Sgd{}, loss, {.sections = {.borders = BorderPolicy::keep}});
  manager.prepare_training();
  EXPECT_EQ(manager.section(0).options().borders, BorderPolicy::host);
  EXPECT_EQ(manager.section(1).options().borders, BorderPolicy::keep);
  Session session(graph, {.threads = 1});
  const FeedTypes types = {{in.images, Shape{4, 8, 8, 3}}, {in.labels, Shape{4}}, {in.is_training, true}};
  const ProgramReport report = manager.plan(session, {loss}, types);
  EXPECT_EQ(report.bytes_out, 4U * 8 * 8 * 4 * 4) << "a, and not b";
  EXPECT_THAT(report.notes,
              Contains(HasSubstr(
                  "section 0: 0 B stay on the device between the passes, 4.00 KiB are offloaded to host memory")));
}

// ---- Halves and fetches.

TEST(Policies, BackwardFetchesOfEveryPolicyGiveTheBytesOfTheFullCycle) {
  for (const OffloadCase& offload_case : offload_cases()) {
    SCOPED_TRACE(offload_case.name);
    std::size_t budget = 0;
    if (offload_case.budget >= 0) {
      SmallTraining ample({.disk = offload_case.session.disk, .threads = 2}, {.borders = BorderPolicy::keep});
      budget = ample.manager.plan(*ample.session, {ample.net.loss}, ample.net.types(6)).planned_peak_bytes * 3 / 2;
    }
    SmallTraining whole, t = training_of(offload_case, budget);
    const auto fetches_of = [](SmallTraining& of) {
      return std::vector<Value>{of.net.outputs[0], of.net.convolved[1], of.manager.section(1).tensors_to_cache().at(0),
                                of.net.convolved[2], of.net.loss};
    };
    const auto wanted = whole.manager.run_full_cycle(*whole.session, fetches_of(whole), whole.net.feeds());
    const auto values = fetches_of(t);
    t.session->set_measuring(true);
    (void)t.manager.run_forward(*t.session, {t.net.loss}, t.net.feeds());
    const std::vector<std::vector<Value>> by_run = {{values[0]}, {values[1], values[2]}, {values[3]}, {values[4]}};
    const auto got = t.manager.run_backward(*t.session, by_run);
    EXPECT_TRUE(bitwise_equal(got[0][0], wanted[0]));
    EXPECT_TRUE(bitwise_equal(got[1][0], wanted[1]));
    EXPECT_TRUE(bitwise_equal(got[1][1], wanted[2]));
    EXPECT_TRUE(bitwise_equal(got[2][0], wanted[3]));
    EXPECT_TRUE(bitwise_equal(got[3][0], wanted[4]));
    EXPECT_EQ(first_difference(whole.state(), t.state()), "");
    EXPECT_EQ(t.session->statistics().measured_peak_bytes, t.session->statistics().planned_peak_bytes);
  }
}

TEST(Policies, HeldTensorsAndSummariesOfEveryPolicyChangeNoBit) {
  SmallTraining whole;
  for (int i = 0; i < 2; ++i) (void)whole.manager.run_full_cycle(*whole.session, {whole.net.loss}, whole.net.feeds());
  for (const OffloadCase& offload_case : offload_cases()) {
    SCOPED_TRACE(offload_case.name);
    SessionOptions options = offload_case.session;
    options.threads = 2;
    options.check_schedules = true;
    Graph graph;
    GraphSectionManager manager(graph);
    SmallNet net(graph, manager);
    manager.add_training_ops(Adam{.learning_rate = 1e-2F}, net.loss,
                             {.summaries = true, .sections = offload_case.sections});
    manager.prepare_training();
    auto feed = manager.section(1).tensors_to_feed();
    feed.push_back(net.convolved[1]);
    manager.section(1).set_tensors_to_feed(feed, Hold::always);
    auto cache = manager.section(2).tensors_to_cache();
    manager.section(2).set_tensors_to_cache(cache, Hold::always);
    Session session(graph, options);
    session.initialize();
    for (int i = 0; i < 2; ++i) (void)manager.run_full_cycle(session, {net.loss}, net.feeds());
    EXPECT_EQ(first_difference(whole.state(), {read_variables(session), {}}), "");
    EXPECT_FALSE(manager.gradient_summaries().empty());
  }
}

// ---- What is refused.

TEST(Policies, DiskWithoutADiskTierIsRefusedWithAHint) {
  SmallTraining t({.threads = 2}, {.borders = BorderPolicy::disk});
  const TrainingState before = t.state();
  const std::string text =
      error_text<ArgumentError>([&] { (void)t.manager.run_full_cycle(*t.session, {t.net.loss}, t.net.feeds()); });
  EXPECT_THAT(text, HasSubstr("no disk tier"));
  EXPECT_THAT(text, HasSubstr("section 0"));
  EXPECT_THAT(text, HasSubstr("SessionOptions::disk"));
  EXPECT_EQ(first_difference(before, t.state()), "");
  t.manager.set_section_options({});
  (void)t.manager.run_full_cycle(*t.session, {t.net.loss}, t.net.feeds());
}

TEST(Policies, ANameThatIsNoTensorIsRefusedWithTheNearestAndPreparationCanBeRepeated) {
  Graph graph;
  GraphSectionManager manager(graph);
  SmallNet net(graph, manager);
  SectionOptions options;
  options.tensors = {{net.outputs[0].name() + "x", BorderPolicy::host}};
  manager.add_training_ops(Sgd{}, net.loss, {.sections = options});
  const std::string text = error_text<ArgumentError>([&] { manager.prepare_training(); });
  EXPECT_THAT(text, HasSubstr("'" + net.outputs[0].name() + "x'"));
  EXPECT_THAT(text, HasSubstr("'" + net.outputs[0].name() + "'; is that the one"));
  EXPECT_FALSE(manager.is_prepared());
  manager.set_section_options({});
  manager.prepare_training();
  EXPECT_THAT(error_text<ArgumentError>([&] { manager.set_section_options(options); }),
              HasSubstr("set_section_options: SectionOptions::tensors of its argument names '"));
  EXPECT_THROW(manager.set_section_options({.prefetch = -1}), ArgumentError);
  const auto border = static_cast<BorderPolicy>(4);
  EXPECT_THROW(manager.set_section_options({.borders = border}), ArgumentError);
  EXPECT_THROW(manager.set_section_options({.tensors = {{"x", border}}}), ArgumentError);
  EXPECT_THROW(manager.set_section_options({.interior = static_cast<InteriorPolicy>(-1)}), ArgumentError);
}

TEST(Policies, ANameThatIsFoundWrongLaterIsSaidWithTheCallThatGaveIt) {
  Graph graph;
  GraphSectionManager manager(graph);
  SmallNet net(graph, manager);
  manager.add_training_ops(Sgd{}, net.loss);
  manager.set_section_options({.tensors = {{"nothing of the kind", BorderPolicy::host}}});
  const int line = __LINE__ - 1;
  const std::string text = error_text<ArgumentError>([&] { manager.prepare_training(); });
  EXPECT_EQ(text.find("prepare_training: SectionOptions::tensors of set_section_options names 'nothing of the kind'"),
            0U)
      << text;
  EXPECT_THAT(text, HasSubstr(text_of("earlier: policies.cpp:", line)));
}

TEST(Policies, ANameOfAnotherSectionIsRefused) {
  Graph graph;
  GraphSectionManager manager(graph);
  SmallInputs in(graph);
  Value a, loss;
  {
    auto section = manager.new_section();
    a = relu(conv2d(in.images, {.features = 2}));
  }
  {
    SectionOptions options;
    options.tensors = {{"conv2d", BorderPolicy::host}};
    auto section = manager.new_section("second", options);
    loss = mean(softmax_cross_entropy(dense(reduce_mean(a, {.axes = {1, 2}}), {.features = 5}), in.labels));
  }
  manager.add_training_ops(Sgd{}, loss);
  EXPECT_THAT(error_text<ArgumentError>([&] { manager.prepare_training(); }), HasSubstr("'second'"));
  EXPECT_THROW((void)manager.new_section("third", {.prefetch = -2}), ArgumentError);
}

TEST(Policies, ABudgetErrorOfThingsThatStaySaysThatTheyMayGo) {
  SmallTraining probe({.threads = 2}, {.borders = BorderPolicy::keep, .interior = InteriorPolicy::keep});
  const std::size_t peak = probe.manager.plan(*probe.session, {probe.net.loss}, probe.net.types(6)).planned_peak_bytes;
  SmallTraining t({.device_memory = peak - 1, .threads = 2},
                  {.borders = BorderPolicy::keep, .interior = InteriorPolicy::keep});
  const std::string text =
      error_text<BudgetError>([&] { (void)t.manager.run_full_cycle(*t.session, {t.net.loss}, t.net.feeds()); });
  EXPECT_THAT(text, HasSubstr("BorderPolicy::automatic"));
  EXPECT_THAT(text, HasSubstr("InteriorPolicy::automatic"));
  EXPECT_THAT(text, HasSubstr(text_of(peak)));
  t.manager.set_section_options({});
  (void)t.manager.run_full_cycle(*t.session, {t.net.loss}, t.net.feeds());
}

TEST(Policies, HostMemoryThatIsTooSmallIsRefusedByItsName) {
  SmallTraining t({.host_memory = 1, .threads = 2}, {.borders = BorderPolicy::host});
  const std::string text =
      error_text<BudgetError>([&] { (void)t.manager.run_full_cycle(*t.session, {t.net.loss}, t.net.feeds()); });
  EXPECT_THAT(text, HasSubstr("host_memory"));
}

}  // namespace
}  // namespace sectionflow::testing

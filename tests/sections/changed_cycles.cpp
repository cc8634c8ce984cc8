// What is changed between two cycles, of which the second would be found in the cache, is met by the second.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "autodiff/gradients.h"
#include "graph/ops/identities.h"
#include "graph/ops/update.h"
#include "runtime/engine.h"
#include "tests/sections/small_net.h"
#include "tests/support/take_out_again.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using PerSection = std::vector<std::vector<Value>>;

/// A net in training whose cycle is found in the cache.
struct Running : SmallTraining {
  explicit Running(SessionOptions options = {.threads = 1, .check_schedules = true}, SectionOptions sections = {})
      : SmallTraining(std::move(options), std::move(sections)) {
    cycle();
    first = engine(*session).latest_program();
    cycle();
    EXPECT_EQ(engine(*session).latest_program(), first);
  }
  void cycle() { (void)manager.run_full_cycle(*session, {net.loss}, net.feeds()); }
  /// How often a cycle executes the node.
  std::int64_t executed(Value value) {
    const std::int64_t before = session->executions(value.node());
    cycle();
    return session->executions(value.node()) - before;
  }
  void take_out_again(const std::function<void()>& change) { testing_support::take_out_again(graph, change); }

  const Program* first = nullptr;
};

TEST(ChangedCycles, OptionsOffloadTensorsFromTheNextOneOn) {
  Running r;
  const std::size_t at_first = r.session->statistics().planned_host_peak_bytes;
  r.manager.set_section_options({.borders = BorderPolicy::host});
  r.cycle();
  EXPECT_GT(r.session->statistics().planned_host_peak_bytes, at_first);
  const std::string name = r.net.convolved[1].name();
  EXPECT_EQ(r.executed(r.net.convolved[1]), 2);
  r.manager.set_section_options({.tensors = {{name, BorderPolicy::keep}}});
  EXPECT_EQ(r.executed(r.net.convolved[1]), 1);
  EXPECT_EQ(r.session->statistics().planned_host_peak_bytes, at_first);
  r.manager.set_section_options({});
  EXPECT_EQ(r.executed(r.net.convolved[1]), 2);
}

TEST(ChangedCycles, AProfileIsAskedByTheNextOne) {
  Running r;
  Profile slow;
  slow.link_out = slow.link_in = 1e6;
  r.manager.set_profile(slow);
  r.cycle();
  EXPECT_NE(engine(*r.session).latest_program(), r.first);
}

TEST(ChangedCycles, AChoiceOfTensorsHoldsForAsManyAsItIsMadeFor) {
  Running r;
  GraphSection& section = r.manager.section(0);
  const Value extra = r.net.convolved[0];
  const std::vector<Value> plain = section.tensors_to_feed();
  std::vector<Value> more = plain;
  more.push_back(extra);
  EXPECT_EQ(r.executed(extra), 2);
  section.set_tensors_to_feed(more);
  EXPECT_EQ(r.executed(extra), 1);
  EXPECT_EQ(r.executed(extra), 2);
  section.set_tensors_to_feed(more, Hold::always);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(r.executed(extra), 1);
  section.set_tensors_to_feed(plain);
  EXPECT_EQ(r.executed(extra), 2);
  EXPECT_EQ(r.executed(extra), 1);
  section.set_tensors_to_feed(plain, Hold::always);
  EXPECT_EQ(r.executed(extra), 2);
  EXPECT_EQ(engine(*r.session).latest_program(), r.first) << "what was compiled for the choice is found again";
}

TEST(ChangedCycles, AChoiceThatIsTakenBackIsForgottenAndTheOneBeforeItStands) {
  Running r;
  GraphSection& section = r.manager.section(0);
  const Value extra = r.net.convolved[0];
  const std::vector<Value> plain = section.tensors_to_feed();
  std::vector<Value> more = plain;
  more.push_back(extra);
  r.take_out_again([&] {
    section.set_tensors_to_feed(more, Hold::always);
    EXPECT_EQ(r.executed(extra), 1);
  });
  EXPECT_EQ(r.executed(extra), 2);
  section.set_tensors_to_feed(more);
  r.take_out_again([&] {
    section.set_tensors_to_feed(plain);
    EXPECT_EQ(r.executed(extra), 2);
    EXPECT_EQ(r.executed(extra), 2);
  });
  EXPECT_EQ(r.executed(extra), 1);
  EXPECT_EQ(r.executed(extra), 2);
}

TEST(ChangedCycles, AChoiceThatIsMadeBetweenTheHalvesIsMetByTheBackwardHalf) {
  Running r;
  GraphSection& section = r.manager.section(2);
  const std::vector<Value> plain = section.tensors_to_cache();
  const auto backward = [&](const std::vector<Value>& held) -> const Schedule& {
    (void)r.manager.run_forward(*r.session, {r.net.loss}, r.net.feeds());
    section.set_tensors_to_cache(held);
    (void)r.manager.run_backward(*r.session, PerSection{{r.net.outputs[0]}});
    return engine(*r.session).latest_program()->schedule;
  };
  const auto is_last = [](const Schedule& schedule, const Buffer& buffer) {
    return buffer.life.last + 1 == static_cast<StepIndex>(schedule.steps.size());
  };
  const Schedule& without = backward(plain);
  // A gradient that dies within the run of its section.
  const auto inner = std::find_if(without.buffers.begin(), without.buffers.end(), [&](const Buffer& buffer) {
    if (!buffer.value.valid() || is_last(without, buffer)) return false;
    const Node& node = buffer.value.node();
    return node.phase() == Phase::training && node.group() == section.group() && !node.op().is_constant() &&
           std::find(plain.begin(), plain.end(), buffer.value) == plain.end();
  });
  ASSERT_NE(inner, without.buffers.end());
  std::vector<Value> more = plain;
  more.push_back(inner->value);
  const auto offloads = [&](const Schedule& schedule) {
    return std::any_of(schedule.buffers.begin(), schedule.buffers.end(),
                       [&](const Buffer& buffer) { return buffer.value == more.back() && is_last(schedule, buffer); });
  };
  EXPECT_TRUE(offloads(backward(more)));
  EXPECT_FALSE(offloads(backward(plain)));
}

TEST(ChangedCycles, ABackwardHalfBeginsWithWhatItsOwnForwardHalfHasLeft) {
  SmallTraining halves, whole;
  const HostTensor x = random_images({2, 8, 8, 3}, 3, 0), y = random_classes(2, 5, 3, 0);
  const auto of_two = [&](const SmallTraining& t) {
    return Feeds{{t.net.images, x}, {t.net.labels, y}, {t.net.is_training, true}};
  };
  const auto train = [&](const std::vector<Value>& fetches, const Feeds& feeds, const Feeds& same) {
    (void)halves.manager.run_forward(*halves.session, fetches, feeds);
    const auto fetched = halves.manager.run_backward(*halves.session, PerSection{{halves.net.outputs[0]}});
    const auto [expected] = whole.manager.run_full_cycle(*whole.session, {whole.net.outputs[0]}, same);
    EXPECT_TRUE(bitwise_equal(fetched[0][0], expected));
    EXPECT_EQ(first_difference(whole.state(), halves.state()), "");
  };
  for (int round = 0; round < 2; ++round) {
    train({halves.net.loss}, halves.net.feeds(), whole.net.feeds());
    train({halves.net.logits, halves.net.convolved[0]}, halves.net.feeds(), whole.net.feeds());
    train({halves.net.loss}, of_two(halves), of_two(whole));
  }
}

TEST(ChangedCycles, ASecondPreparationIsMetByHalvesThatHadFetchesBefore) {
  Graph graph;
  GraphSectionManager manager(graph);
  const Value counter = variable("counter", fill(graph, {}, 0, Dtype::i64), {.trainable = false});
  const SmallNet net(graph, manager);
  manager.add_training_ops(Sgd{}, net.loss);
  manager.prepare_training();
  Session session(graph, {.threads = 1, .check_schedules = true});
  session.initialize();
  const auto counted_after = [&](int cycles) {
    for (int i = 0; i < cycles; ++i) {
      (void)manager.run_forward(session, {net.loss}, net.feeds());
      (void)manager.run_backward(session, PerSection{{net.outputs[0]}});
    }
    return session.read(counter).item<std::int64_t>();
  };
  EXPECT_EQ(counted_after(2), 0);
  graph.add_to_collection(kUpdateOperations, assign_add(counter, fill(graph, {}, 1, Dtype::i64)));
  EXPECT_EQ(counted_after(2), 0) << "it is trained from the next preparation on";
  manager.prepare_training();
  EXPECT_EQ(counted_after(2), 2);
}

TEST(ChangedCycles, AFetchIsOfItsOwnNodeWhoseverNumberItHas) {
  Running r;
  NodeId number = 0;
  r.take_out_again([&] {
    const Value outside = reduce_sum(r.net.outputs[0]);
    number = outside.node().id();
    EXPECT_EQ(r.manager.evaluated_in(outside), 0);
    (void)r.manager.run_full_cycle(*r.session, {outside}, r.net.feeds());
  });
  const Value outside = reduce_sum(r.net.outputs[2]);
  ASSERT_EQ(outside.node().id(), number);
  EXPECT_EQ(r.manager.evaluated_in(outside), 2);
  const auto [expected] = r.session->run({outside}, r.net.feeds());
  const auto [fetched] = r.manager.run_full_cycle(*r.session, {outside}, r.net.feeds());
  EXPECT_TRUE(bitwise_equal(fetched, expected));
}

TEST(ChangedCycles, AFetchIsEvaluatedWhereWhatItWaitsForIs) {
  Graph graph;
  GraphSectionManager manager(graph);
  const Value first = variable("first", fill(graph, {}, 0), {.trainable = false});
  const Value second = variable("second", fill(graph, {}, 0), {.trainable = false});
  const SmallNet net(graph, manager);
  const auto read_in_section_0 = [&](Value value) {
    const auto inside = graph.enter_group(manager.section(0).group());
    (void)relu(value);
  };
  read_in_section_0(first);
  const Operation update_first = assign_add(first, fill(graph, {}, 1));
  const Operation update_second = assign_add(second, fill(graph, {}, 1));
  manager.add_training_ops(Sgd{}, net.loss);
  manager.prepare_training();
  const auto gradient = [&] { return gradients(mean(net.outputs[2] * 2.0F), {net.outputs[2]}).at(0); };
  const Value one = gradient(), other = gradient();
  EXPECT_EQ(manager.evaluated_in(one), 3);
  graph.add_control_edge(update_first, Operation(one));
  EXPECT_EQ(manager.evaluated_in(one), 0) << "an edge alone has come";
  graph.add_control_edge(update_second, Operation(other));
  EXPECT_EQ(manager.evaluated_in(other), 3);
  read_in_section_0(second);
  EXPECT_EQ(manager.evaluated_in(other), 0) << "a node alone has come";
}

TEST(ChangedCycles, FetchesAndTheirOrderAreThoseOfTheCall) {
  Running r;
  const auto both = [&](Value a, Value b) { return r.manager.run_full_cycle(*r.session, {a, b}, r.net.feeds()); };
  for (int round = 0; round < 2; ++round) {
    const auto [loss, logits] = both(r.net.loss, r.net.logits);
    EXPECT_EQ(loss.shape(), Shape{});
    EXPECT_EQ(logits.shape(), (Shape{6, 5}));
    EXPECT_EQ(both(r.net.logits, r.net.loss)[0].shape(), (Shape{6, 5}));
    EXPECT_EQ(both(r.net.loss, r.net.convolved[0])[1].shape(), (Shape{6, 8, 8, 4}));
  }
}

TEST(ChangedCycles, AFetchOfTheForwardHalfIsEvaluatedThereWhereverTheCycleHadIt) {
  Running r;
  for (int i = 0; i < 2; ++i) {
    const auto [loss] = r.manager.run_forward(*r.session, {r.net.loss}, r.net.feeds());
    r.manager.discard_forward(*r.session);
    const auto [expected] = r.manager.run_full_cycle(*r.session, {r.net.loss}, r.net.feeds());
    EXPECT_TRUE(bitwise_equal(loss, expected));
  }
}

TEST(ChangedCycles, ShapesAndBooleansAreThoseOfTheFeeds) {
  Running r;
  const HostTensor x = random_images({2, 8, 8, 3}, 3, 0), y = random_classes(2, 5, 3, 0);
  const auto fetched = r.manager.run_full_cycle(*r.session, {r.net.logits},
                                                {{r.net.images, x}, {r.net.labels, y}, {r.net.is_training, true}});
  EXPECT_EQ(fetched[0].shape(), (Shape{2, 5}));
  r.cycle();
  EXPECT_EQ(engine(*r.session).latest_program(), r.first);
  const auto averages = [&] {
    std::map<std::string, HostTensor> values;
    for (Value v : r.graph.values(kVariables)) {
      if (v.name().find("moving") != std::string::npos) values.emplace(v.name(), r.session->read(v));
    }
    return TrainingState{std::move(values), {}};
  };
  const TrainingState before = averages();
  ASSERT_FALSE(before.variables.empty());
  (void)r.manager.run_full_cycle(*r.session, {r.net.loss},
                                 {{r.net.images, r.net.x}, {r.net.labels, r.net.y}, {r.net.is_training, false}});
  EXPECT_EQ(first_difference(before, averages()), "");
  r.cycle();
  EXPECT_NE(first_difference(before, averages()), "");
}

TEST(ChangedCycles, AGraphThatIsEditedForSwappingIsRefusedHoweverOftenItHasRun) {
  const auto refused = [](const std::function<void(Running&)>& edit) {
    Running r;
    (void)r.manager.run_full_cycle(*r.session, std::vector<Value>{}, r.net.feeds());
    edit(r);
    const auto says = ThrowsMessage<ArgumentError>(HasSubstr("edited for whole-graph swapping"));
    EXPECT_THAT([&] { r.cycle(); }, says);
    EXPECT_THAT([&] { (void)r.manager.run_full_cycle(*r.session, std::vector<Value>{}, r.net.feeds()); }, says);
    EXPECT_THAT([&] { (void)r.manager.run_forward(*r.session, {r.net.loss}, r.net.feeds()); }, says);
  };
  refused([](Running& r) { r.graph.add_order_edge(Operation(r.net.convolved[0]), Operation(r.net.convolved[1])); });
  refused([](Running& r) {
    r.graph.replace_input(r.net.logits.node(), 0, swap_in(swap_out(r.net.logits.node().inputs()[0])));
  });
  Running r;
  (void)swap_out(r.net.logits);
  EXPECT_THROW(r.cycle(), ArgumentError) << "that nobody reads";
}

TEST(ChangedCycles, ADiskIsAskedOfEverySession) {
  const TemporaryFolder folder;
  Running r({.disk = std::size_t{4} << 20, .swap_directory = folder.path().string(), .threads = 1},
            {.borders = BorderPolicy::disk});
  Session without(r.graph, {.threads = 1});
  without.initialize();
  EXPECT_THAT([&] { (void)r.manager.run_full_cycle(without, {r.net.loss}, r.net.feeds()); },
              ThrowsMessage<ArgumentError>(HasSubstr("has no disk tier")));
  r.cycle();
  EXPECT_EQ(engine(*r.session).latest_program(), r.first);
  EXPECT_GT(r.session->statistics().planned_disk_peak_bytes, 0U);
}

TEST(ChangedCycles, VariablesThatComeLaterHaveTheirPlacesFromInitializeOn) {
  Running r;
  const Value late = variable("late", fill(r.graph, {4096}, 7), {.trainable = false});
  const auto fetch_late = [&] { return r.manager.run_full_cycle(*r.session, {late}, r.net.feeds()); };
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT([&] { (void)fetch_late(); },
                ThrowsMessage<ArgumentError>(HasSubstr("'late' was made after session.initialize()")));
  }
  r.cycle();
  r.session->initialize();
  for (int i = 0; i < 2; ++i) r.cycle();
  const HostTensor kept = r.session->read(late);
  for (float value : kept.values<float>()) EXPECT_EQ(value, 7.0F) << "no cycle writes where it lies";
  EXPECT_TRUE(bitwise_equal(fetch_late()[0], kept));
}

TEST(ChangedCycles, AnInstructionEditorEditsTheNextOneAndGoesWithoutATrace) {
  Running r;
  int edited = 0;
  engine(*r.session).set_instruction_editor("counting", [&](InstructionList list, PlanningTools&) {
    ++edited;
    return list;
  });
  for (int i = 0; i < 2; ++i) r.cycle();
  EXPECT_EQ(edited, 1);
  engine(*r.session).set_instruction_editor("", {});
  r.cycle();
  EXPECT_EQ(engine(*r.session).latest_program(), r.first);
}

TEST(ChangedCycles, MeasuringBeginsAndEndsWithTheCallThatSaysSo) {
  Running r({.device_memory = std::size_t{4} << 20, .threads = 1});
  const Statistics& statistics = r.session->statistics();
  EXPECT_EQ(statistics.measured_peak_bytes, 0U);
  r.session->set_measuring(true);
  r.cycle();
  EXPECT_EQ(statistics.measured_peak_bytes, statistics.planned_peak_bytes);
  r.session->set_measuring(false);
  r.cycle();
  EXPECT_EQ(statistics.measured_peak_bytes, 0U);
  EXPECT_EQ(engine(*r.session).latest_program(), r.first);
}

}  // namespace
}  // namespace sectionflow::testing

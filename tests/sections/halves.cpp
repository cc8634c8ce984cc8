// run_forward and run_backward apart: nothing changes in between, and together they are a full cycle.

#include <gtest/gtest.h>

#include "runtime/engine.h"
#include "tests/sections/small_net.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing {
namespace {

TEST(Halves, RunForwardChangesNoVariableAndNoCounter) {
  SmallTraining t;
  const TrainingState before = t.state();
  (void)t.manager.run_forward(*t.session, {t.net.loss}, t.net.feeds());
  EXPECT_EQ(t.session->completed_cycles(), 0U);
  t.manager.discard_forward(*t.session);
  EXPECT_EQ(first_difference(before, t.state()), "");
}

TEST(Halves, OtherRunsAreRefusedWhileTheBackwardHalfIsPending) {
  SmallTraining t;
  const TrainingState before = t.state();
  (void)t.manager.run_forward(*t.session, {t.net.loss}, t.net.feeds());
  const Value variable = t.graph.values(kVariables).front();
  EXPECT_THROW((void)t.session->run({t.net.loss}, t.net.feeds()), ArgumentError);
  EXPECT_THROW((void)t.manager.run_full_cycle(*t.session, {t.net.loss}, t.net.feeds()), ArgumentError);
  EXPECT_THROW((void)t.manager.run_forward(*t.session, {t.net.loss}, t.net.feeds()), ArgumentError);
  EXPECT_THROW((void)t.session->read(variable), ArgumentError);
  EXPECT_THROW(t.session->write(variable, before.variables.at(variable.name())), ArgumentError);
  EXPECT_THROW(t.session->initialize(), ArgumentError);
  // Planning runs nothing.
  EXPECT_TRUE(t.manager.plan(*t.session, {t.net.loss}, t.net.types(3)).fits);
  t.manager.run_backward(*t.session);
  EXPECT_EQ(t.session->completed_cycles(), 1U);
  EXPECT_NE(first_difference(before, t.state()), "");
}

TEST(Halves, BackwardWithoutForwardIsRefused) {
  SmallTraining t;
  const std::string text = error_text<ArgumentError>([&] { t.manager.run_backward(*t.session); });
  EXPECT_NE(text.find("run_forward first"), std::string::npos) << text;
  (void)t.manager.run_forward(*t.session, {t.net.loss}, t.net.feeds());
  t.manager.discard_forward(*t.session);
  EXPECT_THROW(t.manager.run_backward(*t.session), ArgumentError);
}

TEST(Halves, FeedsMayGoAwayBetweenTheHalves) {
  SmallTraining a, b;
  (void)a.manager.run_full_cycle(*a.session, {a.net.loss}, a.net.feeds());
  (void)b.manager.run_forward(*b.session, {b.net.loss}, b.net.feeds());
  for (float& value : b.net.x.values<float>()) value = -100.0F;
  for (std::int32_t& value : b.net.y.values<std::int32_t>()) value = 0;
  b.manager.run_backward(*b.session);
  EXPECT_EQ(first_difference(a.state(), b.state()), "");
}

TEST(Halves, BackwardFetchesGiveTheBytesOfTheFullCycleAndChangeNothingElse) {
  SmallTraining a, b;
  const Value gradient = a.manager.section(1).tensors_to_cache().at(0);
  const Value variable = a.graph.values(kTrainableVariables).front();
  const auto whole = a.manager.run_full_cycle(
      *a.session, std::vector<Value>{a.net.convolved[1], a.net.outputs[0], gradient, variable, a.net.loss},
      a.net.feeds());
  const auto in_b = [&](Value value) { return b.graph.node(value.node().id()).output(value.output()); };
  (void)b.manager.run_forward(*b.session, {b.net.loss}, b.net.feeds());
  const std::vector<std::vector<Value>> fetches = {
      {b.net.outputs[0], in_b(variable)}, {b.net.convolved[1], in_b(gradient)}, {}, {b.net.loss}};
  const auto by_section = b.manager.run_backward(*b.session, fetches);
  ASSERT_EQ(by_section.size(), 4U);
  EXPECT_TRUE(bitwise_equal(by_section[0][0], whole[1]));
  EXPECT_TRUE(bitwise_equal(by_section[0][1], whole[3]));
  EXPECT_TRUE(bitwise_equal(by_section[1][0], whole[0]));
  EXPECT_TRUE(bitwise_equal(by_section[1][1], whole[2]));
  EXPECT_TRUE(by_section[2].empty());
  EXPECT_TRUE(bitwise_equal(by_section[3][0], whole[4]));
  EXPECT_EQ(first_difference(a.state(), b.state()), "");
}

TEST(Halves, BackwardFetchOfARunThatIsTooEarlyIsRefusedAndTheHalfStaysPending) {
  SmallTraining t;
  const Value gradient = t.manager.section(1).tensors_to_cache().at(0);  // made in section 1's run
  (void)t.manager.run_forward(*t.session, {t.net.loss}, t.net.feeds());
  const std::vector<std::vector<Value>> too_early = {{}, {}, {gradient}};
  EXPECT_THROW((void)t.manager.run_backward(*t.session, too_early), ArgumentError);
  t.manager.run_backward(*t.session);
  EXPECT_EQ(t.session->completed_cycles(), 1U);
}

TEST(Halves, ForwardFetchOfAGradientIsRefused) {
  SmallTraining t;
  const Value gradient = t.manager.section(1).tensors_to_cache().at(0);
  EXPECT_THROW((void)t.manager.run_forward(*t.session, {gradient}, t.net.feeds()), ArgumentError);
  EXPECT_EQ(engine(*t.session).pending(), nullptr);
}

}  // namespace
}  // namespace sectionflow::testing

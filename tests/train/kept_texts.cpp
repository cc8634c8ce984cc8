// What a planner of programs keeps with checkpoints, which read none of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine.h"
#include "tests/support/log_lines.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/small_training.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

/// Keeps what it is told to, and notes what it is given back.
struct Keeper : ProgramPlanner {
  explicit Keeper(KeptTexts texts = {}) : keeps(std::move(texts)) {}
  InstructionList planned(const InstructionList& written, PlanningTools& /*tools*/) override { return written; }
  KeptTexts kept() const override { return keeps; }
  void take(const KeptTexts& texts, const std::string& from) override { taken.emplace_back(texts, from); }
  TimesWanted times_wanted(Executable& /*program*/) override { return TimesWanted::none; }
  void note_times(Executable& /*program*/, const ExecutionTimes& /*times*/) override {}
  bool is_due(const Executable& /*program*/) const override { return false; }
  bool plan_again(Executable& /*program*/) override { return false; }
  void undo_plan_again(Executable&, const Error*) override {}

  KeptTexts keeps;
  std::vector<std::pair<KeptTexts, std::string>> taken;
};

std::shared_ptr<Keeper> keeper_of(Session& session, KeptTexts texts = {}, const std::string& key = "keeper") {
  auto keeper = std::make_shared<Keeper>(std::move(texts));
  engine(session).set_planner(key, keeper);
  return keeper;
}

struct KeptTextsOf : testing::Test {
  TemporaryFolder folder;
  Checkpoints checkpoints{(folder.path() / "run").string()};
  SmallTraining first{false}, second{false};
  std::string name() const { return (folder.path() / "run" / "step-1").string(); }
};

TEST_F(KeptTextsOf, ACheckpointComeBackWhetherThePlannerIsThereBeforeOrBehind) {
  const KeptTexts texts = {{"plan", "{\"a\":\n \"ö\"}"}, {"thing", ""}};
  keeper_of(first.session, texts);
  ASSERT_TRUE(checkpoints.save(first.session, {.step = 1}));
  EXPECT_THAT(checkpoints.list()[0].kept, ElementsAre("plan", "thing"));
  const auto before = keeper_of(second.session);
  ASSERT_TRUE(checkpoints.restore_latest(second.session));
  EXPECT_THAT(before->taken, ElementsAre(Pair(texts, name())));
  const auto behind = keeper_of(second.session, {}, "another");
  EXPECT_THAT(behind->taken, ElementsAre(Pair(texts, name())));
  // Each is told once.
  engine(second.session).set_planner("keeper", before);
  EXPECT_EQ(before->taken.size(), 1U);
}

TEST_F(KeptTextsOf, ACheckpointWithoutAnyTakeThePlaceOfThoseOfAnother) {
  keeper_of(first.session, {{"plan", "x"}});
  ASSERT_TRUE(checkpoints.save(first.session, {.step = 1}));
  keeper_of(first.session);
  ASSERT_TRUE(checkpoints.save(first.session, {.step = 2}));
  const auto keeper = keeper_of(second.session);
  (void)checkpoints.restore(second.session, 1);
  (void)checkpoints.restore(second.session, 2);
  ASSERT_EQ(keeper->taken.size(), 2U);
  EXPECT_THAT(keeper->taken[1].first, IsEmpty());
}

TEST_F(KeptTextsOf, APartialLoadStayWhereTheyAre) {
  keeper_of(first.session, {{"plan", "x"}});
  ASSERT_TRUE(checkpoints.save(first.session, {.step = 1}));
  const auto keeper = keeper_of(second.session);
  ASSERT_TRUE(checkpoints.restore_latest(second.session, {.weights_only = true}));
  EXPECT_THAT(keeper->taken, IsEmpty());
}

TEST_F(KeptTextsOf, AProfileAreTheProfileOfTheCheckpointUnlessItsSaverGivesOne) {
  Profile own;
  own.kernel_seconds["a kernel"] = 0.5;
  keeper_of(first.session, {{kKeptProfile, own.json()}});
  ASSERT_TRUE(checkpoints.save(first.session, {.step = 1}));
  ASSERT_TRUE(checkpoints.save(first.session, {.step = 2, .profile = Profile::nominal()}));
  EXPECT_THAT(checkpoints.list()[0].kept, IsEmpty());
  EXPECT_EQ(checkpoints.list()[0].profile, own);
  EXPECT_EQ(checkpoints.list()[1].profile, Profile::nominal());
  const auto keeper = keeper_of(second.session);
  const RestoredCheckpoint restored = checkpoints.restore(second.session, 1);
  EXPECT_EQ(restored.report.profile, own);
  EXPECT_THAT(keeper->taken, ElementsAre(Pair(KeptTexts{{kKeptProfile, own.json()}}, name())));
}

TEST_F(KeptTextsOf, NoProfileAreLeftOutAndTheCheckpointIsWritten) {
  Profile impossible;
  impossible.flops = 0;
  keeper_of(first.session, {{kKeptProfile, impossible.json()}});
  const LogLines log;
  ASSERT_TRUE(checkpoints.save(first.session, {.step = 1}));
  EXPECT_THAT(log.lines, Contains(AllOf(HasSubstr("is not kept"), HasSubstr("'flops' is 0"))));
  EXPECT_FALSE(checkpoints.list()[0].profile);
  EXPECT_TRUE(checkpoints.restore_latest(second.session));
}

TEST_F(KeptTextsOf, TooManyBytesAreLeftOutAndTheCheckpointIsWritten) {
  keeper_of(first.session, {{"large", std::string(kMostKeptBytes, '"')}, {"plan", "x"}});
  const LogLines log;
  ASSERT_TRUE(checkpoints.save(first.session, {.step = 1}));
  EXPECT_THAT(checkpoints.list()[0].kept, ElementsAre("plan"));
  EXPECT_THAT(log.lines, Contains(AllOf(HasSubstr("the session's 'large' is not kept"), HasSubstr("may have"))));
}

}  // namespace
}  // namespace sectionflow

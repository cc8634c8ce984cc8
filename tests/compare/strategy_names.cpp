#include "compare/strategy_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Builds nothing, but notes the cuts that were asked for.
struct Cuts {
  std::vector<std::string> asked;
  CutModel model = [this](const std::string& cut) {
    asked.push_back(cut);
    return ModelBuilder();
  };
};

std::string message_for(const std::string& name) {
  try {
    strategy_named(name, {.model = [](const std::string&) { return ModelBuilder(); }});
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(StrategyNames, KindsAndCuts) {
  Cuts cuts;
  const Strategy whole = strategy_named("whole", {.model = cuts.model, .cut_of_whole = "4"});
  EXPECT_EQ(whole.name, "whole");
  EXPECT_TRUE(whole.whole_graph);
  const Strategy four = strategy_named("sections:4", {.model = cuts.model, .cut_of_whole = "2"});
  EXPECT_EQ(four.name, "sections:4");
  EXPECT_FALSE(four.whole_graph);
  ASSERT_TRUE(four.sections);
  EXPECT_EQ(four.sections->borders, BorderPolicy::keep);
  EXPECT_EQ(four.sections->interior, InteriorPolicy::recompute);
  strategy_named("sections:blocks", {.model = cuts.model});
  EXPECT_EQ(cuts.asked, (std::vector<std::string>{"4", "4", "blocks"}));
}

TEST(StrategyNames, SectionsAndSwapLeaveTheChoiceToThePlanner) {
  Cuts cuts;
  const Profile profile{.flops = 7};
  const Strategy strategy = strategy_named("sections+swap:2", {.model = cuts.model, .profile = profile});
  EXPECT_FALSE(strategy.whole_graph);
  ASSERT_TRUE(strategy.sections);
  EXPECT_EQ(strategy.sections->borders, BorderPolicy::automatic);
  EXPECT_EQ(strategy.sections->interior, InteriorPolicy::automatic);
  EXPECT_EQ(strategy.profile, profile);
  EXPECT_EQ(cuts.asked, std::vector<std::string>{"2"});
  EXPECT_THAT(message_for("sections+swp:2"), HasSubstr("did you mean 'sections+swap:2'?"));
}

TEST(StrategyNames, CutsArePlacedInAModelThatIsBuiltWithoutSections) {
  Cuts cuts;
  const Profile profile{.flops = 7};
  const Strategy four = strategy_named("cuts:4", {.model = cuts.model, .profile = profile});
  EXPECT_FALSE(four.whole_graph);
  ASSERT_TRUE(four.cuts);
  EXPECT_EQ(four.cuts->sections, 4);
  EXPECT_EQ(four.cuts->profile, profile);
  EXPECT_FALSE(four.cuts->may_swap);
  ASSERT_TRUE(four.sections);
  EXPECT_EQ(four.sections->borders, BorderPolicy::keep);
  EXPECT_EQ(strategy_named("cuts:auto", {.model = cuts.model}).cuts->sections, 0);
  EXPECT_EQ(cuts.asked, (std::vector<std::string>{"placed", "placed"}));
  for (const char* name : {"cuts:0", "cuts:-1", "cuts:2x", "cuts:blocks", "cuts:"}) {
    EXPECT_THAT(message_for(name), HasSubstr("is no strategy")) << name;
  }
  EXPECT_THAT(message_for("cuts:atuo"), HasSubstr("did you mean 'cuts:auto'?"));
  EXPECT_THAT(message_for("cuts"), HasSubstr("wanted cuts:N, cuts:auto, as in cuts:auto"));
}

TEST(StrategyNames, AutoStandsAloneOrSaysOfWhichKind) {
  Cuts cuts;
  for (const char* name : {"auto", "auto:recompute", "auto:swap", "auto:unsplit"}) {
    const Strategy strategy = strategy_named(name, {.model = cuts.model});
    EXPECT_EQ(strategy.name, name);
    EXPECT_TRUE(strategy.whole_graph);
    EXPECT_TRUE(strategy.edit_session);
    EXPECT_EQ(strategy.fit->may_recompute, strategy.name != "auto:swap");
    EXPECT_EQ(strategy.fit->may_swap, strategy.name != "auto:recompute");
    EXPECT_EQ(strategy.fit->may_split, strategy.name != "auto:unsplit");
  }
  EXPECT_THAT(message_for("auto:both"), HasSubstr("auto:recompute, auto:swap or auto:unsplit"));
  EXPECT_THAT(message_for("auto:"), HasSubstr("'auto:' is no strategy"));
  EXPECT_THAT(message_for("autos"), HasSubstr("did you mean 'auto'?"));
  EXPECT_THAT(message_for("auto:recomput"), HasSubstr("did you mean 'auto:recompute'?"));
  EXPECT_THAT(message_for("auto:unsplitt"), HasSubstr("did you mean 'auto:unsplit'?"));
  EXPECT_THAT(message_for("auto:both"), Not(HasSubstr("did you mean")));
}

TEST(StrategyNames, MisspellingsAreToldTheNearestAndAll) {
  EXPECT_THAT(message_for("secions:4"), AllOf(HasSubstr("'secions:4' is no strategy; did you mean 'sections:4'?"),
                                              HasSubstr("whole"), HasSubstr("sections:N")));
  EXPECT_THAT(message_for("hole"), HasSubstr("did you mean 'whole'?"));
  // What is proposed can be asked for as it stands.
  EXPECT_THAT(message_for("secions"), HasSubstr("did you mean 'sections:blocks'?"));
  EXPECT_THAT(message_for("wholle:4"), HasSubstr("did you mean 'whole'?"));
  EXPECT_THAT(message_for("magic"), AllOf(HasSubstr("'magic' is no strategy"), HasSubstr("sections:N")));
  EXPECT_THAT(message_for(""), HasSubstr("'' is no strategy"));
}

TEST(StrategyNames, ThatPlanBySearchAreThoseOfFitBudget) {
  Cuts cuts;
  EXPECT_EQ(searching_strategies("or"), "auto, auto:recompute, auto:swap or auto:unsplit");
  EXPECT_EQ(searching_strategies(""), "auto, auto:recompute, auto:swap, auto:unsplit");
  EXPECT_THAT(strategy_forms(), testing::Contains(searching_strategies("")));
  for (const char* name : {"whole", "auto", "auto:recompute", "auto:swap", "auto:unsplit", "swap", "lms:auto",
                           "cuts:auto", "sections:2", "sections+swap:2"}) {
    EXPECT_EQ(plans_by_search(name), strategy_named(name, {.model = cuts.model}).fit.has_value()) << name;
  }
}

TEST(StrategyNames, ArgumentsAreNeitherMissingNorTooMany) {
  EXPECT_THAT(message_for("sections"), HasSubstr("wanted sections:N, as in sections:blocks"));
  EXPECT_THAT(message_for("sections:"), HasSubstr("wanted sections:N"));
  EXPECT_THAT(message_for("whole:4"), HasSubstr("wanted whole"));
}

TEST(StrategyNames, LmsHasFourNumbersOrNone) {
  Cuts cuts;
  for (const char* name : {"lms:auto", "lms:20/3/2/0", "lms:-1/-1/-1/3"}) {
    const Strategy strategy = strategy_named(name, {.model = cuts.model});
    EXPECT_TRUE(strategy.whole_graph) << name;
    EXPECT_TRUE(strategy.edit_graph) << name;
  }
  for (const char* name :
       {"lms:20", "lms:20/3/2", "lms:20/3/2/0/1", "lms:a/3/2/0", "lms:20//2/0", "lms:20/3/2/", "lms:automatic"}) {
    EXPECT_THAT(message_for(name), HasSubstr("is no strategy")) << name;
  }
  EXPECT_THAT(message_for("lms"), HasSubstr("wanted lms:auto"));
  EXPECT_THAT(message_for("lms:auot"), HasSubstr("did you mean 'lms:auto'?"));
  EXPECT_THAT(message_for("lms:0/3/2/0"), HasSubstr("SF-E110")) << "as Lms says it";
}

TEST(StrategyNames, SwapTellsTheSession) {
  Cuts cuts;
  const Strategy strategy = strategy_named("swap", {.model = cuts.model});
  EXPECT_TRUE(strategy.whole_graph);
  EXPECT_TRUE(strategy.edit_session);
  EXPECT_FALSE(strategy.edit_graph);
}

TEST(StrategyNames, FirstCut) {
  EXPECT_EQ(first_cut({"whole", "sections:4", "sections:2"}), "4");
  EXPECT_EQ(first_cut({"whole"}), "1");
}

}  // namespace
}  // namespace sectionflow

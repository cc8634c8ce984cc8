#include "train/strategy_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::HasSubstr;

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
    strategy_named(name, [](const std::string&) { return ModelBuilder(); });
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(StrategyNames, KindsAndCuts) {
  Cuts cuts;
  const Strategy whole = strategy_named("whole", cuts.model, "4");
  EXPECT_EQ(whole.name, "whole");
  EXPECT_TRUE(whole.whole_graph);
  const Strategy four = strategy_named("sections:4", cuts.model, "2");
  EXPECT_EQ(four.name, "sections:4");
  EXPECT_FALSE(four.whole_graph);
  strategy_named("sections:blocks", cuts.model);
  EXPECT_EQ(cuts.asked, (std::vector<std::string>{"4", "4", "blocks"}));
}

TEST(StrategyNames, MisspellingsAreToldTheNearestAndAll) {
  EXPECT_THAT(message_for("secions:4"), AllOf(HasSubstr("'secions:4' is no strategy; did you mean 'sections:4'?"),
                                              HasSubstr("whole"), HasSubstr("sections:N")));
  EXPECT_THAT(message_for("hole"), HasSubstr("did you mean 'whole'?"));
  EXPECT_THAT(message_for("magic"), AllOf(HasSubstr("'magic' is no strategy"), HasSubstr("sections:N")));
  EXPECT_THAT(message_for(""), HasSubstr("'' is no strategy"));
}

TEST(StrategyNames, ArgumentsAreNeitherMissingNorTooMany) {
  EXPECT_THAT(message_for("sections"), HasSubstr("wanted sections:N"));
  EXPECT_THAT(message_for("sections:"), HasSubstr("wanted sections:N"));
  EXPECT_THAT(message_for("whole:4"), HasSubstr("wanted whole"));
}

TEST(StrategyNames, FirstCut) {
  EXPECT_EQ(first_cut({"whole", "sections:4", "sections:2"}), "4");
  EXPECT_EQ(first_cut({"whole"}), "1");
}

}  // namespace
}  // namespace sectionflow

#include "base/name_pattern.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace sectionflow {
namespace {

TEST(NamePattern, StarsStandForAnyText) {
  EXPECT_TRUE(matches_pattern("encoder/layer/w", "encoder/*"));
  EXPECT_TRUE(matches_pattern("encoder/", "encoder/*"));
  EXPECT_FALSE(matches_pattern("encoder", "encoder/*"));
  EXPECT_FALSE(matches_pattern("my/encoder/w", "encoder/*"));
  EXPECT_TRUE(matches_pattern("a/bias", "*/bias"));
  EXPECT_FALSE(matches_pattern("a/bias/adam_m", "*/bias"));
  EXPECT_TRUE(matches_pattern("a/bias/bias", "*/bias"));
  EXPECT_TRUE(matches_pattern("", "*"));
  EXPECT_TRUE(matches_pattern("", ""));
  EXPECT_FALSE(matches_pattern("a", ""));
  EXPECT_TRUE(matches_pattern("abcabd", "*ab*d"));
  EXPECT_TRUE(matches_pattern("aXbXc", "a***c"));
  EXPECT_TRUE(matches_pattern("a.b", "a?b"));
  EXPECT_FALSE(matches_pattern("ab", "a?b")) << "'?' stands for one letter";
  EXPECT_FALSE(matches_pattern("axb", "a.b")) << "all other letters stand for themselves";
}

TEST(NamePattern, OfManyStarsIsDecidedInAMoment) {
  std::string pattern;
  for (int i = 0; i < 2000; ++i) pattern += "a*";
  EXPECT_FALSE(matches_pattern(std::string(4000, 'a') + "b", pattern + "c"));
  EXPECT_TRUE(matches_pattern(std::string(4000, 'a'), pattern));
}

TEST(NamePattern, RenamesWhatTheStarStandsFor) {
  EXPECT_EQ(renamed("old/w", "old/*", "new/*"), "new/w");
  EXPECT_EQ(renamed("old/", "old/*", "*"), "");
  EXPECT_EQ(renamed("a/x/b", "a/*/b", "b/*/a"), "b/x/a");
  EXPECT_EQ(renamed("other/w", "old/*", "new/*"), std::nullopt);
  EXPECT_EQ(renamed("ab", "ab*b", "*"), std::nullopt) << "both ends need letters of their own";
  EXPECT_EQ(renamed("w", "w", "v"), "v");
  EXPECT_EQ(renamed("old/*", "old/*", "*"), "*");
}

TEST(NamePattern, TheNearestIsAFolderAnEndOrAName) {
  const std::vector<std::string> names = {"encoder/layer0/attention/kernel", "encoder/layer0/attention/bias",
                                          "decoder/layer0/kernel", "head"};
  EXPECT_EQ(nearest_pattern("encodr/*", names), "encoder/*");
  EXPECT_EQ(nearest_pattern("encoder/layr0/*", names), "encoder/layer0/*");
  EXPECT_EQ(nearest_pattern("*/kernal", names), "*/kernel");
  EXPECT_EQ(nearest_pattern("*/atention/bias", names), "*/attention/bias");
  EXPECT_EQ(nearest_pattern("haed", names), "head");
  EXPECT_EQ(nearest_pattern("decoder/layer0/kernal", names), "decoder/layer0/kernel");
  for (const char* far : {"elsewhere/*", "*/weights", "*", "/*", "*/", ""}) {
    EXPECT_EQ(nearest_pattern(far, names), std::nullopt) << far;
    EXPECT_EQ(nearest_pattern(far, {}), std::nullopt) << far;
  }
}

TEST(NamePattern, RenamingsNeedOneStarEachOrNone) {
  EXPECT_NO_THROW(check_renaming("call", "a", "b"));
  EXPECT_NO_THROW(check_renaming("call", "a*", "*b"));
  EXPECT_THROW(check_renaming("call", "a*", "b"), ArgumentError);
  EXPECT_THROW(check_renaming("call", "a", "*"), ArgumentError);
  EXPECT_THROW(check_renaming("call", "**", "**"), ArgumentError);
  EXPECT_THROW(check_renaming("call", "", "b"), ArgumentError);
  EXPECT_THROW(check_renaming("call", "a", ""), ArgumentError);
}

}  // namespace
}  // namespace sectionflow

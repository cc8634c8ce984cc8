#include "base/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace sectionflow {
namespace {

const std::vector<std::string>& names() {
  static const std::vector<std::string> all = {"images", "labels", "is_training", "learning_rate"};
  return all;
}

TEST(Nearest, SmallSlipsAreRecognised) {
  EXPECT_EQ(nearest_spelling("image", names()), "images");
  EXPECT_EQ(nearest_spelling("lables", names()), "labels");
  EXPECT_EQ(nearest_spelling("is-training", names()), "is_training");
  EXPECT_EQ(nearest_spelling("learningrate", names()), "learning_rate");
  EXPECT_EQ(nearest_spelling("labels", names()), "labels");
}

TEST(Nearest, NeighboursThatChangedPlacesAreOneSlip) {
  EXPECT_EQ(nearest_spelling("tahn", std::vector<std::string>{"than", "tan", "tanh"}), "than");
  EXPECT_EQ(nearest_spelling("tahn", std::vector<std::string>{"relu", "tanh"}), "tanh");
  EXPECT_EQ(nearest_spelling("ahtn", std::vector<std::string>{"tanh"}), std::nullopt);
}

TEST(Nearest, OtherWordsAreNotGuessed) {
  EXPECT_EQ(nearest_spelling("weights", names()), std::nullopt);
  EXPECT_EQ(nearest_spelling("", names()), std::nullopt);
  EXPECT_EQ(nearest_spelling("images", {}), std::nullopt);
  EXPECT_EQ(nearest_spelling("x", std::vector<std::string>{"y"}), std::nullopt);
}

TEST(Nearest, AtMostAThirdMayDiffer) {
  const std::vector<std::string> word = {"abcdefghi"};
  EXPECT_EQ(nearest_spelling("xyzdefghi", word), "abcdefghi");
  EXPECT_EQ(nearest_spelling("xyzwefghi", word), std::nullopt);
}

TEST(Nearest, TheNearestWinsAndThenTheFirst) {
  EXPECT_EQ(nearest_spelling("section_2", std::vector<std::string>{"sections", "section_12", "section_2x"}),
            "section_12");
  EXPECT_EQ(nearest_spelling("conv2", std::vector<std::string>{"conv11", "conv3", "conv1"}), "conv3");
}

}  // namespace
}  // namespace sectionflow

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

TEST(Nearest, NamesOfAFileAreListedShortlyWithTheNearest) {
  const NamesInFile few = names_in_file("lable", std::vector<std::string>{"image", "label"}, "otherwise");
  EXPECT_EQ(few.list, "'image', 'label'");
  EXPECT_EQ(few.hint.text, "is 'label' the one that is meant?");
  EXPECT_EQ(names_in_file("x", {}, "otherwise").list, "none");
  EXPECT_EQ(names_in_file("x", {}, "otherwise").hint.text, "otherwise");
  std::vector<std::string> many(100'000, std::string(1000, 'x'));
  many[0] = std::string("a\n\0\xff", 4);
  const NamesInFile listed = names_in_file("no such name", many, "otherwise");
  EXPECT_EQ(listed.list.substr(0, 8), "'a\?\?\?', ");
  EXPECT_LT(listed.list.size(), 700U);
  EXPECT_EQ(listed.list.substr(listed.list.size() - 15), " and 99992 more");
}

}  // namespace
}  // namespace sectionflow

// What a page shows of an example stands in the example, which is compiled.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "tests/house/source_tree.h"

namespace sectionflow::house {
namespace {

/// The section of a page from its heading to the next of the same rank.
std::string section_of(const std::string& page, const std::string& heading) {
  const auto begin = page.find("\n" + heading + "\n");
  if (begin == std::string::npos) return "";
  return page.substr(begin, page.find("\n## ", begin + 1) - begin);
}

/// The blocks of C++ in a text.
Texts code_blocks(const std::string& text) {
  static const std::string open = "```cpp\n", close = "```";
  Texts blocks;
  for (auto at = text.find(open); at != std::string::npos; at = text.find(open, at)) {
    at += open.size();
    const auto end = text.find(close, at);
    blocks.push_back(text.substr(at, end - at));
  }
  return blocks;
}

/// Blocks of a section that no file below `folder` has, word for word.
Texts blocks_without_source(const std::string& section, const std::string& folder, const Files& files) {
  Texts complaints;
  for (const std::string& block : code_blocks(section)) {
    const bool is_there = std::any_of(files.begin(), files.end(), [&](const SourceFile& file) {
      return file.path.starts_with(folder) && file.text.find(block) != std::string::npos;
    });
    if (!is_there) complaints.push_back(text_of("no file below ", folder, " has\n", block));
  }
  return complaints;
}

TEST(PageCode, BlocksThatNoFileHasAreFlagged) {
  const std::string page = "# A\n## B\n```cpp\nint a;\n```\n```sh\nls\n```\n## C\n```cpp\nint c;\n```\n";
  const Files files = {{"examples/a.cpp", "int a;\nint b;\n"}};
  EXPECT_EQ(code_blocks(page), (Texts{"int a;\n", "int c;\n"}));
  EXPECT_EQ(blocks_without_source(section_of(page, "## B"), "examples/", files), kNone);
  EXPECT_EQ(blocks_without_source(section_of(page, "## B"), "bench/", files).size(), 1U);
  EXPECT_EQ(blocks_without_source(section_of(page, "## C"), "examples/", files).size(), 1U);
}

TEST(PageCode, OperationsFromOutsideAreThoseOfTheExample) {
  const std::string section = section_of(text_of_file("docs/adding_an_op.md"), "## From outside");
  EXPECT_GE(code_blocks(section).size(), 5U);
  EXPECT_EQ(blocks_without_source(section, "examples/06_own_operation/", code()), kNone);
}

TEST(PageCode, PicturesOfTheirPageAreDrawnByATest) {
  const std::string page = text_of_file("docs/tensorboard.md");
  EXPECT_GE(code_blocks(page).size(), 4U);
  EXPECT_EQ(blocks_without_source(page, "tests/train/", code()), kNone);
}

/// A text whose lines begin `spaces` further left, where they begin with so many.
std::string outdented(const std::string& text, std::size_t spaces) {
  std::string result;
  for (const std::string& line : lines_of(text)) {
    const bool is_indented = line.find_first_not_of(' ') >= spaces && line.size() >= spaces;
    result += (is_indented ? line.substr(spaces) : line) + "\n";
  }
  return result;
}

TEST(PageCode, OfTrainingIsThatOfExamplesAndTests) {
  EXPECT_EQ(outdented("a\n  b\n    c\n", 2), "a\nb\n  c\n");
  Files files;
  for (const SourceFile& file : code()) {
    for (const std::size_t spaces : {0U, 2U, 4U, 6U}) files.push_back({file.path, outdented(file.text, spaces)});
  }
  const std::string page = text_of_file("docs/training.md");
  EXPECT_GE(code_blocks(page).size(), 4U);
  EXPECT_EQ(blocks_without_source(page, "", files), kNone);
}

TEST(PageCode, RowsAreWrittenAsInTheirExample) {
  const std::string page = text_of_file("docs/sources.md"), example = "examples/14_feature_vectors.cpp";
  const auto begin = page.find(example + ")"), end = page.find("`finish()` of each", begin);
  ASSERT_NE(end, std::string::npos);
  Files files;
  for (const std::size_t spaces : {2U, 4U}) files.push_back({example, outdented(text_of_file(example), spaces)});
  const std::string section = page.substr(begin, end - begin);
  EXPECT_EQ(code_blocks(section).size(), 2U);
  EXPECT_EQ(blocks_without_source(section, example, files), kNone);
}

TEST(PageCode, InferenceIsThatOfItsExamples) {
  const std::string page = text_of_file("docs/inference.md");
  Files files;
  for (const std::string example : {"examples/22_freeze.cpp", "examples/23_eight_bits.cpp"}) {
    files.push_back({example, outdented(text_of_file(example), 2)});
  }
  EXPECT_EQ(code_blocks(page).size(), 3U);
  EXPECT_EQ(blocks_without_source(page, "examples/", files), kNone);
}

TEST(PageCode, LossesAreThoseOfTheirTest) {
  const std::string page = text_of_file("docs/losses.md"), test = "tests/graph/losses_page.cpp";
  Files files;
  for (const std::size_t spaces : {2U, 4U}) files.push_back({test, outdented(text_of_file(test), spaces)});
  EXPECT_GE(code_blocks(page).size(), 11U);
  EXPECT_EQ(blocks_without_source(page, test, files), kNone);
}

TEST(PageCode, BlocksAreThoseOfTheirTest) {
  const std::string page = text_of_file("docs/blocks.md"), test = "tests/graph/blocks_page.cpp";
  Files files;
  for (const std::size_t spaces : {2U, 4U}) files.push_back({test, outdented(text_of_file(test), spaces)});
  EXPECT_GE(code_blocks(page).size(), 11U);
  EXPECT_EQ(blocks_without_source(page, test, files), kNone);
}

TEST(PageCode, SequencesAreThoseOfTheirTest) {
  const std::string page = text_of_file("docs/sequences.md"), test = "tests/graph/sequences_page.cpp";
  Files files;
  for (const std::size_t spaces : {0U, 2U, 4U}) files.push_back({test, outdented(text_of_file(test), spaces)});
  EXPECT_GE(code_blocks(page).size(), 7U);
  EXPECT_EQ(blocks_without_source(page, test, files), kNone);
}

TEST(PageCode, ControlIsThatOfItsTest) {
  const std::string page = text_of_file("docs/control.md"), test = "tests/graph/control_page.cpp";
  Files files;
  for (const std::size_t spaces : {2U, 4U}) files.push_back({test, outdented(text_of_file(test), spaces)});
  EXPECT_GE(code_blocks(page).size(), 7U);
  EXPECT_EQ(blocks_without_source(page, test, files), kNone);
}

TEST(PageCode, TowersAreThoseOfTheirExampleAndTest) {
  const std::string section = section_of(text_of_file("docs/many_devices.md"), "## Towers");
  Files files;
  for (const std::string path : {"examples/21_towers.cpp", "tests/train/towers.cpp"}) {
    files.push_back({path, outdented(text_of_file(path), 2)});
  }
  EXPECT_EQ(code_blocks(section).size(), 3U);
  EXPECT_EQ(blocks_without_source(section, "", files), kNone);
  const std::string meant =
      section_of(text_of_file("docs/many_devices.md"), "## Operations that are meant for a device");
  EXPECT_EQ(code_blocks(meant).size(), 1U);
  EXPECT_EQ(blocks_without_source(meant, "", {{"", outdented(text_of_file("tests/runtime/placement.cpp"), 2)}}), kNone);
}

TEST(PageCode, DataPipelinesAreThoseOfTheirTest) {
  const std::string page = text_of_file("docs/data.md");
  EXPECT_GE(code_blocks(page).size(), 1U);
  EXPECT_EQ(blocks_without_source(page, "tests/data/", code()), kNone);
}

}  // namespace
}  // namespace sectionflow::house

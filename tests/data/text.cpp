#include "data/text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/contains.h"
#include "tests/support/damaged_bytes.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing_support::contains;
using Tokens = std::vector<std::int32_t>;
using namespace std::string_literals;

TEST(Vocabulary, OfBytesGivesEveryTextItsBytes) {
  const Vocabulary bytes = Vocabulary::of_bytes();
  EXPECT_EQ(bytes.size(), 256);
  EXPECT_EQ(bytes.tokens_of("A\xff\0z"s), (Tokens{65, 255, 0, 122}));
  EXPECT_EQ(bytes.text_of_tokens(Tokens{65, 255, 0}), "A\xff\0"s);
  EXPECT_THROW(bytes.text_of_tokens(Tokens{256}), ArgumentError);
  EXPECT_THROW(bytes.text_of_tokens(Tokens{-1}), ArgumentError);
}

TEST(Vocabulary, TakesTheLongestPieceFirst) {
  const TemporaryFolder folder;
  const Vocabulary pieces = Vocabulary::read(folder.file("pieces", "a\nab\nabcd\n\\n\n \\x20\n\\\\\nc"));
  EXPECT_EQ(pieces.size(), 7);
  EXPECT_EQ(pieces.tokens_of("abcabcd\n  \\a"), (Tokens{1, 6, 2, 3, 4, 5, 0}));
  EXPECT_EQ(pieces.text_of_tokens(Tokens{1, 6, 2, 3, 4, 5, 0}), "abcabcd\n  \\a");
  EXPECT_TRUE(contains(error_text<DataError>([&] { pieces.tokens_of("abx", "here: "); }),
                       "here: no piece of the vocabulary is at byte 2"));
  const Vocabulary known = Vocabulary::read(folder.file("known", "a\n<unk>\n"));
  EXPECT_EQ(known.tokens_of("axya"), (Tokens{0, 1, 1, 0}));
  EXPECT_EQ(known.tokens_of(""), Tokens{});
}

TEST(Vocabulary, OfAFileWhoseLinesEndInCarriageReturnsHasTheSamePieces) {
  const TemporaryFolder folder;
  const Vocabulary pieces = Vocabulary::read(folder.file("pieces", "a\r\nb\\r\r\n<unk>\r\n"));
  EXPECT_EQ(pieces.size(), 3);
  EXPECT_EQ(pieces.tokens_of("ab\rxa"), (Tokens{0, 1, 2, 0}));
}

TEST(Vocabulary, FilesThatAreNoneAreRefusedByLine) {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> files = {
      {"a\n\nb", "line 2: is empty"}, {"a\na", "line 2: has the piece of an earlier line"},
      {"a\\", "line 1: an escape"},   {"a\\q", "line 1: an escape"},
      {"\\x4", "line 1: an escape"},  {"\\x4g", "line 1: an escape"},
      {"", "has no pieces"},          {std::string(5000, 'x'), "line 1: has 5000 bytes"}};
  for (const auto& [bytes, wanted] : files) {
    const auto path = folder.file("pieces", bytes);
    EXPECT_TRUE(contains(error_text<DataError>([&] { Vocabulary::read(path); }), wanted)) << wanted;
  }
  EXPECT_THROW(Vocabulary::read(folder.path() / "gone"), DataError);
  testing_support::expect_read_or_refused("ab\n\\x41\\n\n<unk>\n", [&](const std::string& damaged) {
    std::filesystem::remove(folder.path() / "damaged");
    Vocabulary::read(folder.file("damaged", damaged));
  });
}

TEST(TextSource, TargetsAreTheTokensBehindTheInputs) {
  const TemporaryFolder folder;
  const auto first = folder.file("first", "abcde"), second = folder.file("second", "fghij");
  const auto source = text_source({first, second}, Vocabulary::of_bytes(), {.window = 3});
  ASSERT_EQ(source->size(), 3);
  const Example second_window = source->at(1);
  EXPECT_TRUE(bitwise_equal(second_window.at("inputs"), HostTensor::of<std::int32_t>({3}, {'d', 'e', 'f'})));
  EXPECT_TRUE(bitwise_equal(second_window.at("targets"), HostTensor::of<std::int32_t>({3}, {'e', 'f', 'g'})));
  EXPECT_EQ(text_source({first}, Vocabulary::of_bytes(), {.window = 3, .stride = 1})->size(), 2);
  EXPECT_EQ(text_source({first}, Vocabulary::of_bytes(), {.window = 4})->size(), 1);
  EXPECT_THROW(source->at(3), ArgumentError);
  EXPECT_THROW(source->at(-1), ArgumentError);
}

TEST(TextSource, TooLittleAndTooMuchAreRefused) {
  const TemporaryFolder folder;
  const auto file = folder.file("file", "abcde");
  const Vocabulary bytes = Vocabulary::of_bytes();
  EXPECT_THROW(text_source({file}, bytes, {.window = 5}), DataError);
  EXPECT_THROW(text_source({file, file}, bytes, {.window = 2, .max_bytes = 9}), DataError);
  EXPECT_NO_THROW(text_source({file, file}, bytes, {.window = 2, .max_bytes = 10}));
  EXPECT_THROW(text_source({}, bytes), ArgumentError);
  EXPECT_THROW(text_source({file}, bytes, {.window = 0}), ArgumentError);
  EXPECT_THROW(text_source({file}, bytes, {.window = 1, .stride = -1}), ArgumentError);
  EXPECT_THROW(text_source({file}, bytes, {.window = std::int64_t{1} << 62}), ArgumentError);
  EXPECT_THROW(text_source({folder.path() / "gone"}, bytes), DataError);
  EXPECT_TRUE(contains(
      error_text<DataError>([&] { text_source({file}, Vocabulary::read(folder.file("v", "a")), {.window = 1}); }),
      "byte 1, whose value is 98"));
}

}  // namespace
}  // namespace sectionflow

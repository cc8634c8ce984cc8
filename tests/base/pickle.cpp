// Values in Python's pickle format, and which bytes are UTF-8.

#include "base/pickle.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/error.h"
#include "base/utf8.h"

namespace sectionflow {
namespace {

std::string bytes(std::initializer_list<int> values) {
  std::string result;
  for (const int value : values) result += static_cast<char>(value);
  return result;
}

TEST(Pickle, BytesAreThoseOfTheFormat) {
  PickleWriter writer;
  writer.begin_dict();
  writer.key("a");
  writer.begin_list();
  writer.integer(-2);
  writer.number(1.5);
  writer.truth(true);
  writer.truth(false);
  writer.none();
  writer.end_list();
  writer.key("b");
  writer.integers({7});
  writer.end_dict();
  EXPECT_EQ(writer.finish(),
            bytes({0x80, 2,    '}',  '(', 'X',  1,    0, 0, 0, 'a', ']', '(', 0x8a, 8,    0xfe, 0xff, 0xff, 0xff, 0xff,
                   0xff, 0xff, 0xff, 'G', 0x3f, 0xf8, 0, 0, 0, 0,   0,   0,   0x88, 0x89, 'N',  'e',  'X',  1,    0,
                   0,    0,    'b',  '(', 0x8a, 8,    7, 0, 0, 0,   0,   0,   0,    0,    't',  'u',  '.'}));
}

TEST(Pickle, EmptyThingsAreThere) {
  PickleWriter writer;
  writer.begin_list();
  writer.begin_dict();
  writer.end_dict();
  writer.begin_list();
  writer.end_list();
  writer.text("");
  writer.end_list();
  EXPECT_EQ(writer.finish(), bytes({0x80, 2, ']', '(', '}', '(', 'u', ']', '(', 'e', 'X', 0, 0, 0, 0, 'e', '.'}));
}

TEST(Pickle, LongListsAreAppendedInPiecesThatOneCallCanTake) {
  PickleWriter writer;
  writer.begin_list();
  for (int i = 0; i < 2500; ++i) writer.none();
  writer.end_list();
  const std::string text = writer.finish();
  std::size_t pieces = 0, items = 0, longest = 0;
  for (const char opcode : text.substr(3)) {
    if (opcode == 'N') longest = std::max(longest, ++items);
    if (opcode != 'e') continue;
    ++pieces;
    items = 0;
  }
  EXPECT_EQ(pieces, 3U);
  EXPECT_EQ(longest, 1000U);
}

TEST(Pickle, WhatIsNotClosedOrStandsInTheWrongPlaceIsRefused) {
  PickleWriter writer;
  EXPECT_THROW(writer.key("a"), InternalError);
  EXPECT_THROW(writer.end_list(), InternalError);
  writer.begin_list();
  EXPECT_THROW(writer.key("a"), InternalError);
  EXPECT_THROW(writer.end_dict(), InternalError);
  EXPECT_THROW(writer.finish(), InternalError);
}

TEST(Utf8, CharactersAreThoseOfTheStandardAndNothingElse) {
  for (const std::string text : {"", "plain", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xef\xbf\xbf",
                                 "\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
    EXPECT_EQ(valid_utf8(text), text);
  }
  for (const std::string text :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc3", "\xe2\x82", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3(", "\xe2(\xa1"}) {
    EXPECT_FALSE(is_utf8(text));
    EXPECT_TRUE(is_utf8(valid_utf8(text)));
  }
  EXPECT_EQ(valid_utf8("a\xff\xc3\xa9\xc3"), "a?\xc3\xa9?");
}

}  // namespace
}  // namespace sectionflow

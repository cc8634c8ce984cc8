#include "data/wire_message.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "data/tf_example.h"
#include "tests/support/data_examples.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using namespace std::string_literals;

std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

TEST(WireMessage, OfASoundExampleEveryLengthFitsAndOfACutOneNone) {
  const std::string sound = serialize_tf_example(numbered_example(7));
  EXPECT_TRUE(lengths_fit(sound, kExampleMessage));
  EXPECT_TRUE(lengths_fit("", kExampleMessage));
  for (std::size_t length = 1; length < sound.size(); ++length)
    EXPECT_FALSE(lengths_fit(sound.substr(0, length), kExampleMessage)) << length;
}

TEST(WireMessage, FieldsOfEveryKindArePassedOver) {
  const std::string varint = "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", fixed64 = "\x11" + std::string(8, 'x'),
                    fixed32 = "\x1d" + std::string(4, 'x'), group = "\x23" + field(6, "in a group") + "\x24";
  EXPECT_TRUE(lengths_fit(varint + fixed64 + fixed32 + group, kExampleMessage));
  for (const std::string& cut : {varint.substr(0, 10), fixed64.substr(0, 8), fixed32.substr(0, 4), "\x2a\x05xxxx"s})
    EXPECT_FALSE(lengths_fit(cut, kExampleMessage));
  for (const std::string& unknown : {"\x0e"s, "\x0f"s}) EXPECT_FALSE(lengths_fit(unknown, kExampleMessage));
}

std::string group(int number, const std::string& fields) {
  return static_cast<char>(number << 3 | 3) + fields + static_cast<char>(number << 3 | 4);
}

TEST(WireMessage, UnknownGroupsArePassedOverToTheirOwnEnds) {
  const std::string sound = serialize_tf_example(numbered_example(7));
  const FeatureSchema schema = {{.name = "id", .dtype = Dtype::i64}};
  // In a group the numbers of fields mean something else: 1 is no list of features.
  const std::string strange = field(1, "\x0a\x64 no message"s);
  for (const std::string& whole : {group(9, ""), group(9, strange), group(9, group(9, strange) + strange),
                                   group(1, strange), group(15, "\x08\x01"s + group(3, group(2, "")))}) {
    for (const std::string& bytes : {sound + whole, whole + sound}) {
      EXPECT_TRUE(lengths_fit(bytes, kExampleMessage));
      EXPECT_EQ(parse_tf_example(bytes, schema, "").at("id").item<std::int64_t>(), 7);
    }
  }
  // Ends without a beginning and of another group, beginnings without an end, and numbers that no field has.
  const std::string end = group(9, "").substr(1), other_end = group(8, "").substr(1);
  for (const std::string& broken :
       {end, group(9, "").substr(0, 1), group(9, other_end), group(9, group(8, "").substr(0, 1)), "\x03\x04"s,
        field(1, group(9, "").substr(0, 1)) + end, "\x00\x01"s, "\x83\x80\x80\x80\x80\x01"s}) {
    EXPECT_FALSE(lengths_fit(broken, kExampleMessage));
    EXPECT_THROW((void)parse_tf_example(sound + broken, schema, ""), DataError);
  }
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep = group(9, deep);
  EXPECT_FALSE(lengths_fit(deep, kExampleMessage));
  EXPECT_THROW((void)parse_tf_example(sound + std::string(1'000'000, '\x4b'), schema, ""), DataError);
}

TEST(WireMessage, ALengthBeyondWhatHoldsItIsFoundInMessagesAloneAndAtEveryDepth) {
  // A text of five bytes that says it has 100.
  const std::string lie =
      "\x0a\x64"
      "abcde";
  const std::string feature = field(1, "name") + field(2, field(1, lie));
  EXPECT_FALSE(lengths_fit(lie, kExampleMessage));
  EXPECT_FALSE(lengths_fit(field(1, lie), kExampleMessage));
  EXPECT_FALSE(lengths_fit(field(1, field(1, feature)), kExampleMessage));
  // As the bytes of a list they may be anything.
  EXPECT_TRUE(lengths_fit(field(1, field(1, field(1, "name") + field(2, field(1, field(1, lie))))), kExampleMessage));
  // Fields that the message does not have are bytes.
  EXPECT_TRUE(lengths_fit(field(9, lie), kExampleMessage));
  EXPECT_THROW((void)parse_tf_example(field(1, field(1, feature)), {{.name = "name"}}, ""), DataError);
}

}  // namespace
}  // namespace sectionflow

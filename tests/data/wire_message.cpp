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

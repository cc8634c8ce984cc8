#include "base/bytes.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

TEST(Bytes, LiteralsAreBinaryUnits) {
  EXPECT_EQ(1_KiB, 1024U);
  EXPECT_EQ(3_MiB, 3U * 1024 * 1024);
  EXPECT_EQ(2_GiB, 2ULL << 30);
}

TEST(Bytes, RoundUpGivesTheNextMultiple) {
  EXPECT_EQ(round_up(0), 0U);
  EXPECT_EQ(round_up(1), kBufferAlignment);
  EXPECT_EQ(round_up(256), 256U);
  EXPECT_EQ(round_up(257), 512U);
  EXPECT_EQ(round_up(9, 8), 16U);
}

TEST(Bytes, TextHasTheLargestUnitThatKeepsTheNumberAboveOne) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1_KiB), "1.00 KiB");
  EXPECT_EQ(bytes_text(1536_KiB), "1.50 MiB");
  EXPECT_EQ(bytes_text(312_MiB), "312 MiB");
  EXPECT_EQ(bytes_text(12_GiB + 512_MiB), "12.5 GiB");
  EXPECT_EQ(bytes_text(2048_GiB), "2.00 TiB");
}

TEST(Bytes, TextDoesNotRoundUpToAnotherNumberOfDigits) {
  EXPECT_EQ(bytes_text(10_KiB - 1), "10.0 KiB");
  EXPECT_EQ(bytes_text(100_KiB - 1), "100 KiB");
  EXPECT_EQ(bytes_text(999_KiB), "999 KiB");
  EXPECT_EQ(bytes_text(1000_KiB), "1000 KiB");
  EXPECT_EQ(bytes_text(1_MiB - 1), "1.00 MiB");
  EXPECT_EQ(bytes_text(1_GiB - 1), "1.00 GiB");
}

TEST(Bytes, EveryAcceptedSpellingIsRead) {
  EXPECT_EQ(parse_bytes("4096"), 4096U);
  EXPECT_EQ(parse_bytes("4096B"), 4096U);
  EXPECT_EQ(parse_bytes("64KiB"), 64_KiB);
  EXPECT_EQ(parse_bytes("64 kib"), 64_KiB);
  EXPECT_EQ(parse_bytes("64  KiB "), 64_KiB);
  EXPECT_EQ(parse_bytes("4096 "), 4096U);
  EXPECT_EQ(parse_bytes("512MiB"), 512_MiB);
  EXPECT_EQ(parse_bytes("1.5 GiB"), 1536_MiB);
  EXPECT_EQ(parse_bytes("1TiB"), 1024_GiB);
  EXPECT_EQ(parse_bytes("0"), 0U);
  EXPECT_EQ(parse_bytes("1024"), 1_KiB);
  EXPECT_EQ(parse_bytes("45B"), 45U);
  EXPECT_EQ(parse_bytes("9007199254740993"), 9007199254740993U);
}

TEST(Bytes, AnythingElseIsRefusedSayingWhatIsAccepted) {
  for (const char* text : {"",
                           "MiB",
                           "12MB",
                           "12 M",
                           "-1",
                           "1e3",
                           "1.2.3",
                           ".",
                           "0x10",
                           "12MiB!",
                           "nan",
                           "4K iB",
                           "4 Ki B",
                           "4 KiB x",
                           " 4KiB",
                           "4 KiB\t",
                           "99999999999999999999",
                           "16777216TiB",
                           "9999999999.5TiB",
                           "0.0001B"}) {
    SCOPED_TRACE(text);
    const std::string error = error_text<ArgumentError>([&] { parse_bytes(text); });
    EXPECT_NE(error.find("512MiB"), std::string::npos) << error;
  }
}

TEST(Bytes, AFewBytesMustBeSaidToBeBytes) {
  for (const std::string text : {"2", "45", "1023"}) {
    const std::string error = error_text<ArgumentError>([&] { parse_bytes(text); });
    EXPECT_EQ(error, "'" + text + "' would be " + text +
                         " bytes; wanted a unit with so small a number\n  hint:    did you "
                         "mean " +
                         text + "MiB or " + text + "GiB? " + text + "B says that it is bytes");
  }
  EXPECT_THROW(parse_bytes("1.5"), ArgumentError);
}

}  // namespace
}  // namespace sectionflow

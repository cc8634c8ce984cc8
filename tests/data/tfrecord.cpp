#include "data/tfrecord.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/crc32c.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using namespace std::string_literals;
using Texts = std::vector<std::string>;

std::string tfrecord_bytes(const Texts& records, Compression compression = Compression::none) {
  std::string bytes;
  RecordWriter writer([&](const char* more, std::size_t count) { bytes.append(more, count); }, compression);
  for (const std::string& record : records) writer.write(record);
  writer.finish();
  return bytes;
}

struct Reading {
  Texts records;
  Texts errors;
};

Reading read_all(RecordReader reader) {
  Reading reading;
  for (int i = 0; i < 10000; ++i) {
    try {
      const auto record = reader.next();
      if (!record.has_value()) return reading;
      reading.records.emplace_back(*record);
    } catch (const DataError& error) {
      reading.errors.emplace_back(error.what());
    }
  }
  throw std::runtime_error("the reading does not end");
}

Reading read_all(const std::string& bytes, RecordOptions options = {}) {
  return read_all(RecordReader::of_bytes(bytes, "in memory", options));
}

const Texts& some_records() {
  static const Texts records = {"", "a", "first record", std::string(1000, 'x'), "\0\1\2"s, std::string(700000, 'y')};
  return records;
}

TEST(Crc32c, IsThatOfTheStandardByInstructionAndByTable) {
  EXPECT_EQ(crc32c("123456789", 9), 0xE3069283U);
  EXPECT_EQ(crc32c_by_table("123456789", 9), 0xE3069283U);
  // RFC 3720, appendix B.4.
  EXPECT_EQ(crc32c(std::string(32, '\0').data(), 32), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xff').data(), 32), 0x62A8AB43U);
  EXPECT_EQ(crc32c(nullptr, 0), 0U);
}

TEST(Crc32c, OfEveryLengthAndPlaceIsTheSameBothWaysAndInParts) {
  std::string bytes(40000, '\0');
  std::uint32_t random = 1;
  for (char& byte : bytes) byte = static_cast<char>((random = random * 1664525U + 1013904223U) >> 24);
  std::vector<std::size_t> lengths = {4095, 4096, 12287, 12288, 12289, 13056, 24576, 39990};
  for (std::size_t length = 0; length < 1600; ++length) lengths.push_back(length);
  for (const std::size_t length : lengths) {
    const char* from = bytes.data() + length % 9;
    const std::uint32_t sum = crc32c(from, length);
    ASSERT_EQ(sum, crc32c_by_table(from, length)) << length;
    ASSERT_EQ(sum, crc32c(from + length / 3, length - length / 3, crc32c(from, length / 3))) << length;
    ASSERT_EQ(sum, crc32c_by_table(from + length / 3, length - length / 3, crc32c_by_table(from, length / 3)));
  }
}

TEST(Tfrecord, FirstRecordOfAnEventFileHasTheKnownBytes) {
  const std::string event = "\x09\x00\x00\x00\x40\xfc\x54\xd9\x41\x1a\x0d"s + "brain.Event:2";
  const std::string golden = "\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22\x09\0\0\0\x40\xfc\x54\xd9\x41\x1a\x0d"s +
                             "brain.Event:2" + "\xec\xed\x8f\x9d";
  EXPECT_EQ(golden.size(), 40U);
  EXPECT_EQ(tfrecord_bytes({event}), golden);
  EXPECT_EQ(read_all(golden).records, Texts{event});
}

TEST(Tfrecord, WhatIsWrittenIsReadInEveryCompression) {
  for (const Compression compression : {Compression::none, Compression::gzip, Compression::zlib}) {
    const std::string bytes = tfrecord_bytes(some_records(), compression);
    for (const Compression told : {compression, Compression::automatic}) {
      const Reading reading = read_all(bytes, {.compression = told});
      EXPECT_EQ(reading.records, some_records());
      EXPECT_EQ(reading.errors, Texts{});
    }
    const TemporaryFolder folder;
    EXPECT_EQ(read_all(RecordReader(folder.file("records", bytes))).records, some_records());
    EXPECT_EQ(read_all(tfrecord_bytes({}, compression)).records, Texts{});
  }
}

TEST(Tfrecord, RecordsReachTheSinkWhole) {
  std::vector<std::size_t> calls;
  RecordWriter writer([&](const char*, std::size_t count) { calls.push_back(count); });
  writer.write("abc");
  writer.write("");
  writer.finish();
  EXPECT_EQ(calls, (std::vector<std::size_t>{19, 16}));
  EXPECT_THROW(RecordWriter([](const char*, std::size_t) {}, Compression::automatic), ArgumentError);
}

TEST(Tfrecord, AnErrorOfTheSinkLeavesTheWriter) {
  RecordWriter writer([](const char*, std::size_t) { throw DataError("full"); });
  EXPECT_THROW(writer.write("abc"), DataError);
}

TEST(Tfrecord, OneFileOfSeveralGzipStreamsIsRead) {
  const std::string bytes = tfrecord_bytes({"a", "b"}, Compression::gzip) + tfrecord_bytes({"c"}, Compression::gzip);
  EXPECT_EQ(read_all(bytes).records, (Texts{"a", "b", "c"}));
  const Reading foreign = read_all(tfrecord_bytes({"a"}, Compression::zlib) + "more");
  EXPECT_EQ(foreign.records, Texts{"a"});
  EXPECT_EQ(foreign.errors.size(), 1U);
}

TEST(Tfrecord, ZerosBehindGzipStreamsArePassedOver) {
  const std::string zeros(200'000, '\0');
  const std::string bytes =
      tfrecord_bytes({"a"}, Compression::gzip) + zeros + tfrecord_bytes({"b"}, Compression::gzip) + zeros;
  const Reading reading = read_all(bytes);
  EXPECT_EQ(reading.records, (Texts{"a", "b"}));
  EXPECT_TRUE(reading.errors.empty());
  EXPECT_EQ(read_all(bytes + "x").errors.size(), 1U);
  EXPECT_EQ(read_all(tfrecord_bytes({"a"}, Compression::zlib) + zeros).errors.size(), 1U);
}

TEST(Tfrecord, EveryTruncationGivesTheWholeRecordsAndOneError) {
  const Texts records = {"first", "", "a third record"};
  for (const Compression compression : {Compression::none, Compression::gzip, Compression::zlib}) {
    const std::string bytes = tfrecord_bytes(records, compression);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      const Reading reading = read_all(bytes.substr(0, length), {.compression = compression});
      ASSERT_LE(reading.records.size(), records.size());
      for (std::size_t i = 0; i < reading.records.size(); ++i) ASSERT_EQ(reading.records[i], records[i]);
      if (compression == Compression::none) {
        const bool at_border = length == 0 || length == 21 || length == 37;
        ASSERT_EQ(reading.errors.size(), at_border ? 0U : 1U) << length;
        ASSERT_EQ(read_all(bytes.substr(0, length), {.allow_torn_end = true}).errors, Texts{});
      } else {
        ASSERT_EQ(reading.errors.size(), 1U) << length;
      }
    }
  }
}

TEST(Tfrecord, EverySingleFlippedBitIsFoundAndNamesFileRecordAndOffset) {
  const Texts records = {"first", "second", "a third record"};
  for (const Compression compression : {Compression::none, Compression::gzip, Compression::zlib}) {
    const std::string bytes = tfrecord_bytes(records, compression);
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      std::string damaged = bytes;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
      const Reading reading = read_all(damaged, {.compression = compression});
      // Of gzip's head there are bytes that tell nothing about what is compressed, as the time.
      if (compression == Compression::gzip && reading.errors.empty()) {
        ASSERT_EQ(reading.records, records);
        ASSERT_LT(bit / 8, 10U);
        continue;
      }
      // A compressed stream has a checksum of its own, which may not match either.
      ASSERT_GE(reading.errors.size(), 1U) << bit;
      ASSERT_LE(reading.errors.size(), compression == Compression::none ? 1U : records.size() + 1) << bit;
      ASSERT_NE(reading.errors[0].find("SF-E407 DataError: TFRecord file 'in memory': record "), std::string::npos)
          << reading.errors[0];
      for (const std::string& record : reading.records)
        ASSERT_NE(std::find(records.begin(), records.end(), record), records.end());
    }
  }
}

TEST(Tfrecord, DamagedBytesCostTheirRecordAlone) {
  std::string bytes = tfrecord_bytes({"first", "second", "third"});
  bytes[12] ^= 1;
  bytes[21 + 22 + 12] ^= 1;
  const Reading reading = read_all(bytes);
  EXPECT_EQ(reading.records, Texts{"second"});
  ASSERT_EQ(reading.errors.size(), 2U);
  EXPECT_NE(reading.errors[0].find("record 0 at byte 0: its 5 bytes do not match their checksum"), std::string::npos);
  EXPECT_NE(reading.errors[1].find("record 2 at byte 43: "), std::string::npos) << reading.errors[1];
}

TEST(Tfrecord, ALengthThatTheFileDoesNotHaveIsRefusedBeforeMemoryIsTaken) {
  const auto head_of = [](std::uint64_t length) {
    std::string head(reinterpret_cast<const char*>(&length), 8);
    const std::uint32_t sum = masked_crc32c(head);
    return head.append(reinterpret_cast<const char*>(&sum), 4);
  };
  for (const std::uint64_t length :
       {std::uint64_t{100}, std::uint64_t{200_MiB}, ~std::uint64_t{0}, std::uint64_t{1} << 63, ~std::uint64_t{0} - 3}) {
    const std::string bytes = head_of(length) + "few";
    ASSERT_EQ(read_all(bytes).errors.size(), 1U) << length;
    ASSERT_EQ(read_all(bytes, {.max_record_bytes = ~std::size_t{0}}).errors.size(), 1U) << length;
  }
  EXPECT_EQ(read_all(tfrecord_bytes({std::string(101, 'x')}), {.max_record_bytes = 100}).errors.size(), 1U);
  EXPECT_EQ(read_all(tfrecord_bytes({std::string(100, 'x')}), {.max_record_bytes = 100}).records.size(), 1U);
}

TEST(Tfrecord, SkippedRecordsAreCounted) {
  const std::string bytes = tfrecord_bytes({"a", "b", "c", "d"});
  RecordReader reader = RecordReader::of_bytes(bytes, "in memory");
  EXPECT_EQ(reader.skip(0), 0);
  EXPECT_EQ(reader.skip(2), 2);
  EXPECT_EQ(*reader.next(), "c");
  EXPECT_EQ(reader.index(), 2);
  EXPECT_EQ(reader.offset(), 34U);
  EXPECT_EQ(reader.skip(10), 1);
  EXPECT_FALSE(reader.next().has_value());
  EXPECT_FALSE(reader.next().has_value());
  EXPECT_EQ(reader.skip(1), 0);
}

TEST(Tfrecord, OtherFilesAreRefused) {
  const TemporaryFolder folder;
  EXPECT_THROW(RecordReader(folder.path() / "none"), DataError);
  EXPECT_THROW(RecordReader(folder.path()), DataError);
  EXPECT_THROW(RecordReader(""), DataError);
  for (const std::string& bytes : {"short"s, "a text that is no file of records at all"s, std::string(100, '\0')}) {
    const Reading reading = read_all(RecordReader(folder.file("file", bytes)));
    EXPECT_EQ(reading.records, Texts{});
    EXPECT_EQ(reading.errors.size(), 1U);
  }
}

}  // namespace
}  // namespace sectionflow

// An LMDB database of which any byte is another, below a pipeline, under every policy: the walk ends, what is left out
// is counted, and the error names file and record. The format has no checksums: what damage leaves readable is read.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/dataset.h"
#include "data/rows.h"
#include "sources/lmdb.h"
#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing_support::contains;

constexpr std::int64_t kRecords = 6;

struct Walk {
  std::int64_t delivered = 0;
  std::string error;
  DatasetStatistics statistics;
};

Walk walk_over(const std::shared_ptr<const StreamSource>& source, ErrorPolicy policy) {
  DatasetIterator iterator = Dataset::from(source).on_error(policy).iterate();
  Walk walk;
  try {
    while (walk.delivered <= kRecords && iterator.next()) ++walk.delivered;
  } catch (const DataError& error) {
    walk.error = error.what();
  }
  walk.statistics = iterator.statistics();
  return walk;
}

/// The bytes of a database of small pictures.
std::string database_bytes(const TemporaryFolder& folder) {
  Example tensors;
  HostTensor images(Dtype::u8, {kRecords, 2, 2, 3}), labels(Dtype::i32, {kRecords});
  for (std::size_t i = 0; i < images.num_bytes(); ++i) images.values<std::uint8_t>()[i] = static_cast<std::uint8_t>(i);
  for (std::int64_t i = 0; i < kRecords; ++i) labels.values<std::int32_t>()[static_cast<std::size_t>(i)] = 3;
  tensors.emplace("image", std::move(images));
  tensors.emplace("label", std::move(labels));
  write_lmdb(folder.path() / "sound", *rows_of("pictures", std::move(tensors)));
  return bytes_of_file(folder.path() / "sound" / "data.mdb");
}

TEST(DamagedDatabases, LeaveOutAndCountWhatCannotBeReadUnderEveryPolicyWhicheverByteIsAnother) {
  const TemporaryFolder folder;
  std::string sound;
  try {
    sound = database_bytes(folder);
  } catch (const DataError& error) {
    if (error.code() == ErrorCode::missing_library) GTEST_SKIP() << "built without liblmdb";
    throw;
  }
  int refused = 0, damaged = 0, unnoticed = 0;
  for (std::size_t at = 0; at < sound.size(); ++at) {
    // Of pages what is nothing but zeros is not in use.
    if (sound[at] == 0 && at % 64 != 0 && at % 4096 > 256) continue;
    SCOPED_TRACE(at);
    std::string bytes = sound;
    bytes[at] = static_cast<char>(bytes[at] ^ 1 << at % 8);
    // A new file: to write an old one anew waits for the disk on some file systems.
    std::filesystem::remove(folder.path() / "data.mdb");
    const auto path = folder.file("data.mdb", bytes);
    std::shared_ptr<const StreamSource> source;
    try {
      source = lmdb_source(path);
    } catch (const DataError& error) {
      ASSERT_TRUE(contains(error.what(), "data.mdb'")) << error.what();
      ++refused;
      continue;
    }
    const Walk fails = walk_over(source, ErrorPolicy::fail), record = walk_over(source, ErrorPolicy::skip_record),
               file = walk_over(source, ErrorPolicy::skip_file);
    ASSERT_EQ(record.error, "");
    ASSERT_EQ(file.error, "");
    // Of two heads the one with the larger number of a transaction counts: the older, of no record, where damage says
    // so.
    const std::int64_t there = *source->size();
    ASSERT_TRUE(there == kRecords || there == 0) << there;
    ASSERT_EQ(record.delivered + record.statistics.skipped_records, there);
    ASSERT_EQ(record.statistics.skipped_files, 0);
    ASSERT_EQ(file.delivered, fails.delivered);
    if (fails.error.empty()) {
      ASSERT_EQ(fails.delivered, there);
      ASSERT_EQ(record.statistics.skipped_records + file.statistics.skipped_records, 0);
      ++unnoticed;
      continue;
    }
    ++damaged;
    // SF-E409 where the byte is the one that says that the picture is a file.
    ASSERT_TRUE(contains(fails.error, "SF-E407") || contains(fails.error, "SF-E409")) << fails.error;
    ASSERT_TRUE(contains(fails.error, text_of("data.mdb': record ", fails.delivered))) << fails.error;
    ASSERT_TRUE(contains(record.statistics.last_skipped, "data.mdb'"));
    // One byte is of one record.
    ASSERT_EQ(record.statistics.skipped_records, 1);
    ASSERT_EQ(file.statistics.skipped_records, 1);
    ASSERT_EQ(file.statistics.skipped_files, 1);
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(damaged, kRecords * 4);
  EXPECT_GT(unnoticed, kRecords * 12) << "pixels";
}

TEST(DamagedDatabases, OfOneThatIsCutOffWhileItIsReadNoPolicyReadsOnOrLeavesItOut) {
  const TemporaryFolder folder;
  try {
    (void)database_bytes(folder);
  } catch (const DataError& error) {
    if (error.code() == ErrorCode::missing_library) GTEST_SKIP() << "built without liblmdb";
    throw;
  }
  const std::filesystem::path file = folder.path() / "sound" / "data.mdb";
  const std::string bytes = bytes_of_file(file);
  for (const ErrorPolicy policy : {ErrorPolicy::fail, ErrorPolicy::skip_record, ErrorPolicy::skip_file}) {
    const std::shared_ptr<const StreamSource> source = lmdb_source(file);
    DatasetIterator iterator = Dataset::from(source).on_error(policy).iterate();
    ASSERT_TRUE(iterator.next());
    const std::size_t left = bytes.size() / 2;
    std::filesystem::resize_file(file, left);
    const auto expect_error = [&](const auto& read) {
      try {
        read();
        ADD_FAILURE() << "read on behind the end";
      } catch (const DataError& error) {
        EXPECT_TRUE(contains(error.what(), "SF-E411")) << error.what();
        EXPECT_TRUE(contains(error.what(), text_of("of these it has ", left, " now"))) << error.what();
      }
    };
    expect_error([&] { (void)iterator.next(); });
    expect_error([&] { (void)source->open(); });
    std::filesystem::remove(file);  // what is open stays the old one
    folder.file("sound/data.mdb", bytes);
  }
}

}  // namespace
}  // namespace sectionflow

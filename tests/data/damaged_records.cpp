// A TFRecord file of which any byte is another, below a pipeline, under every policy: the walk ends, what is whole is
// delivered, what is not is counted, and the error names file, record and byte.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/pipeline/cursor_state.h"
#include "data/tfrecord_source.h"
#include "tests/support/data_examples.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

constexpr std::int64_t kRecordsOfFile = 4;

/// A file of numbered examples from `first` on, and where each record begins.
struct NumberedFile {
  explicit NumberedFile(std::int64_t first, Compression compression = Compression::none) {
    RecordWriter writer([this](const char* more, std::size_t count) { bytes.append(more, count); }, compression);
    for (std::int64_t id = first; id < first + kRecordsOfFile; ++id) {
      begins.push_back(bytes.size());
      writer.write(serialize_tf_example(numbered_example(id)));
    }
    writer.finish();
  }
  std::string bytes;
  std::vector<std::size_t> begins;
};

struct Walk {
  std::vector<std::int64_t> ids;
  std::string error;
  DatasetStatistics statistics;
};

/// Two files, of which the first is damaged.
Walk walk_over(const TemporaryFolder& folder, const std::string& damaged, ErrorPolicy policy, int threads) {
  folder.file("a.tfrecord", damaged);
  const FeatureSchema schema = {{.name = "id", .dtype = Dtype::i64}};
  Dataset dataset =
      Dataset::from(tfrecord_source({folder.path() / "a.tfrecord", folder.path() / "b.tfrecord"}, schema));
  DatasetIterator iterator =
      dataset.map([](Example example) { return example; }, {.threads = threads}).on_error(policy).iterate();
  Walk walk;
  try {
    while (const auto example = iterator.next()) walk.ids.push_back(ids_of(*example)[0]);
  } catch (const DataError& error) {
    walk.error = error.what();
  }
  walk.statistics = iterator.statistics();
  return walk;
}

std::vector<std::int64_t> ids_without(std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> ids;
  for (std::int64_t id = 0; id < 2 * kRecordsOfFile; ++id) {
    if (id < first || id >= last) ids.push_back(id);
  }
  return ids;
}

TEST(DamagedRecords, AreWhatIsMissingUnderEveryPolicyWhicheverByteIsAnother) {
  const TemporaryFolder folder;
  const NumberedFile sound(0);
  folder.file("b.tfrecord", NumberedFile(kRecordsOfFile).bytes);
  for (std::size_t at = 0; at < sound.bytes.size(); ++at) {
    SCOPED_TRACE(at);
    std::string damaged = sound.bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1 << at % 8);
    std::int64_t record = kRecordsOfFile - 1;
    while (sound.begins[static_cast<std::size_t>(record)] > at) --record;
    // Behind a length that cannot be believed nobody knows where the next record begins.
    const bool is_length = at - sound.begins[static_cast<std::size_t>(record)] < 12;
    const int threads = at % 2 == 0 ? 1 : 2;

    const Walk fails = walk_over(folder, damaged, ErrorPolicy::fail, threads);
    ASSERT_EQ(fails.ids, ids_without(record, 2 * kRecordsOfFile));
    ASSERT_NE(fails.error.find("a.tfrecord"), std::string::npos) << fails.error;
    ASSERT_NE(fails.error.find(text_of("record ", record, " at byte ", sound.begins[static_cast<std::size_t>(record)])),
              std::string::npos)
        << fails.error;

    const Walk record_skipped = walk_over(folder, damaged, ErrorPolicy::skip_record, threads);
    ASSERT_EQ(record_skipped.error, "");
    ASSERT_EQ(record_skipped.ids, ids_without(record, is_length ? kRecordsOfFile : record + 1));
    ASSERT_EQ(record_skipped.statistics.skipped_records, 1);
    ASSERT_EQ(record_skipped.statistics.skipped_files, 0);

    const Walk file_skipped = walk_over(folder, damaged, ErrorPolicy::skip_file, threads);
    ASSERT_EQ(file_skipped.error, "");
    ASSERT_EQ(file_skipped.ids, ids_without(record, kRecordsOfFile));
    ASSERT_EQ(file_skipped.statistics.skipped_records, 1);
    ASSERT_EQ(file_skipped.statistics.skipped_files, 1);
  }
}

/// Numbers in files of four, of which record 5 cannot be read for now.
class FailingForNow : public StreamSource {
 public:
  std::string name() const override { return "numbers"; }
  std::unique_ptr<ExampleStream> open() const override { return fails ? failing_.open() : sound_.open(); }
  bool fails = true;

 private:
  NumberedStream failing_{12, {5}, 4}, sound_{12, {}, 4};
};

TEST(DamagedRecords, ThatAreReadWellBehindAPositionLeaveWhatFollowsInItsPlace) {
  for (const ErrorPolicy policy : {ErrorPolicy::skip_record, ErrorPolicy::skip_file}) {
    const auto source = std::make_shared<FailingForNow>();
    const Dataset dataset = Dataset::from(std::shared_ptr<const StreamSource>(source)).repeat(2).on_error(policy);
    const std::vector<std::int64_t> wanted = flat(drain(dataset));
    constexpr std::size_t kTaken = 7, kEpoch = 12;
    DatasetIterator first = dataset.iterate();
    for (std::size_t i = 0; i < kTaken; ++i) ASSERT_EQ(ids_of(*first.next())[0], wanted[i]);
    const std::string amid_first = first.position();
    source->fails = false;
    DatasetIterator second = dataset.iterate(amid_first);
    const std::size_t left = wanted.size() / 2 - kTaken;
    for (std::size_t i = 0; i < left; ++i) ASSERT_EQ(ids_of(*second.next())[0], wanted[kTaken + i]);
    // The other epoch has the record and what was left out with it, in a position that was taken in it, too.
    for (std::size_t i = 0; i < kTaken; ++i) ASSERT_EQ(ids_of(*second.next())[0], static_cast<std::int64_t>(i));
    DatasetIterator third = dataset.iterate(second.position());
    const std::vector<std::int64_t> rest = flat(drain(third));
    ASSERT_EQ(rest.size(), kEpoch - kTaken);
    for (std::size_t i = 0; i < rest.size(); ++i) EXPECT_EQ(rest[i], static_cast<std::int64_t>(kTaken + i));
  }
}

TEST(DamagedRecords, AreToldOfAnyMomentByMarksThatShareOneLog) {
  DamageLog log;
  std::vector<DamageLog::Mark> marks;
  std::vector<std::set<std::int64_t>> wanted;
  std::set<const void*> chunks;
  for (std::int64_t i = 0; i < 1000; ++i) {
    if (i % 7 == 6) {
      log.remove(i * 3 / 2);
    } else {
      log.add(i * 2);
    }
    marks.push_back(log.mark());
    wanted.push_back(log.records());
    chunks.insert(marks.back().chunk.get());
  }
  EXPECT_LE(chunks.size(), 8U) << "16 events, then twice as many each time";
  for (std::size_t i = 0; i < marks.size(); i += 13) EXPECT_EQ(DamageLog::records_at(marks[i]), wanted[i]) << i;
  log.reset(wanted[500]);
  EXPECT_EQ(DamageLog::records_at(log.mark()), wanted[500]);
  EXPECT_EQ(DamageLog::records_at(marks.back()), wanted.back());
}

TEST(DamagedRecords, OfACompressedFileAreNeverDelivered) {
  const TemporaryFolder folder;
  const NumberedFile sound(0, Compression::gzip);
  folder.file("b.tfrecord", NumberedFile(kRecordsOfFile).bytes);
  int num_damaged = 0;
  for (std::size_t at = 0; at < sound.bytes.size(); ++at) {
    SCOPED_TRACE(at);
    std::string damaged = sound.bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1 << at % 8);
    for (ErrorPolicy policy : {ErrorPolicy::fail, ErrorPolicy::skip_record, ErrorPolicy::skip_file}) {
      const Walk walk = walk_over(folder, damaged, policy, 1);
      // What is delivered is whole and in order, whatever is missing; the other file is there unless the walk failed.
      std::vector<std::int64_t> wanted = ids_without(kRecordsOfFile, kRecordsOfFile);
      ASSERT_TRUE(std::includes(wanted.begin(), wanted.end(), walk.ids.begin(), walk.ids.end()));
      if (!walk.error.empty()) {
        ASSERT_NE(walk.error.find("a.tfrecord"), std::string::npos) << walk.error;
        if (policy == ErrorPolicy::fail) ++num_damaged;
        continue;
      }
      const auto of_other = std::lower_bound(walk.ids.begin(), walk.ids.end(), kRecordsOfFile);
      ASSERT_EQ(walk.ids.end() - of_other, kRecordsOfFile);
    }
  }
  // A few bytes of a gzip header mean nothing.
  EXPECT_GT(num_damaged, static_cast<int>(sound.bytes.size()) - 12);
}

}  // namespace
}  // namespace sectionflow

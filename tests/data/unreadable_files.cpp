// Files that cannot be read for a reason that may pass: nothing is taken for damaged, whatever the policy, and who asks
// again gets what was to come.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>

#include "base/whole_file.h"
#include "data/dataset.h"
#include "data/file_at.h"
#include "data/source_identity.h"
#include "data/tfrecord_source.h"
#include "tests/support/contains.h"
#include "tests/support/data_examples.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing_support::contains;

/// Of a program that may open no file, in which a sanitizer cannot look at the objects of a stream.
constexpr const char* kBlindSanitizer = "the sanitizer opens files to look at objects";

constexpr ErrorPolicy kPolicies[] = {ErrorPolicy::fail, ErrorPolicy::skip_record, ErrorPolicy::skip_file};

/// Lets this process open no file more while it lives.
class NoMoreFiles {
 public:
  NoMoreFiles() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit none = before_;
    none.rlim_cur = 0;  // those that are open stay so
    setrlimit(RLIMIT_NOFILE, &none);
  }
  NoMoreFiles(const NoMoreFiles&) = delete;
  NoMoreFiles& operator=(const NoMoreFiles&) = delete;
  ~NoMoreFiles() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(UnreadableFiles, SayWhatMayPassAndWhatToDo) {
  if (testing_support::kIsSanitized) GTEST_SKIP() << kBlindSanitizer;
  const TemporaryFolder folder;
  const auto path = folder.file("some", "bytes");
  {
    const NoMoreFiles none;
    for (const std::string& text : {whole_error_text<DataError>([&] { (void)read_whole_file(path, 100, "test"); }),
                                    whole_error_text<DataError>([&] { FileAt(path, "test file"); })}) {
      EXPECT_TRUE(contains(text, "SF-E411") && contains(text, "some'") && contains(text, "ulimit -n")) << text;
    }
  }
  EXPECT_EQ(read_whole_file(path, 100, "test"), "bytes");
  EXPECT_TRUE(contains(whole_error_text<DataError>([&] { FileAt(folder.path() / "gone", "test file"); }), "SF-E400"));
  for (const int passing : {EMFILE, ENFILE, EINTR, EIO, ENOMEM}) {
    EXPECT_TRUE(contains(whole_error_text<DataError>([&] { throw_read_failure("it", passing); }), "SF-E411"))
        << passing;
  }
  for (const int lasting : {EACCES, ENOENT, EISDIR}) {
    EXPECT_TRUE(contains(whole_error_text<DataError>([&] { throw_read_failure("it", lasting); }), "SF-E400"))
        << lasting;
  }
}

TEST(UnreadableFiles, OfRecordsAreNotLeftOutAndComeWhenTheyCanBeRead) {
  if (testing_support::kIsSanitized) GTEST_SKIP() << kBlindSanitizer;
  const TemporaryFolder folder;
  for (const std::string name : {"a", "b"}) {
    std::string bytes;
    RecordWriter writer([&](const char* more, std::size_t count) { bytes.append(more, count); }, Compression::none);
    for (std::int64_t id = 0; id < 3; ++id)
      writer.write(serialize_tf_example(numbered_example(name == "a" ? id : 3 + id)));
    writer.finish();
    folder.file(name + ".tfrecord", bytes);
  }
  const FeatureSchema schema = {{.name = "id", .dtype = Dtype::i64}};
  const Dataset records = Dataset::from(tfrecord_source(files_in(folder.path()), schema));
  for (const ErrorPolicy policy : kPolicies) {
    const Dataset dataset = records.on_error(policy);
    DatasetIterator iterator = dataset.iterate();
    for (std::int64_t id = 0; id < 3; ++id) EXPECT_EQ(ids_of(*iterator.next())[0], id);
    {
      // The next call opens the second file.
      const NoMoreFiles none;
      const std::string text = whole_error_text<DataError>([&] { iterator.next(); });
      EXPECT_TRUE(contains(text, "SF-E411") && contains(text, "b.tfrecord")) << text;
    }
    EXPECT_EQ(iterator.statistics().skipped_records, 0);
    EXPECT_EQ(iterator.statistics().skipped_files, 0);
    EXPECT_EQ(flat(drain(dataset)).size(), 6U);
    DatasetIterator again = dataset.iterate(iterator.position());
    EXPECT_EQ(flat(drain(again)), (std::vector<std::int64_t>{3, 4, 5}));
  }
}

/// Numbers of which some cannot be read for as long as `fails`, or are damaged for ever.
struct FlakyNumbers : IndexedSource {
  std::string name() const override { return "flaky numbers"; }
  std::int64_t size() const override { return 10; }
  Example at(std::int64_t index) const override {
    if (index == 2) throw DataError("record 2 is damaged");
    if (index == 5 && fails) throw_read_failure("'five' cannot be opened", EIO);
    return numbered_example(index);
  }
  std::atomic<bool> fails = true;
};

TEST(UnreadableFiles, CountAsNothingBesideWhatIsDamaged) {
  for (const ErrorPolicy policy : {ErrorPolicy::skip_record, ErrorPolicy::skip_file}) {
    for (const int threads : {1, 3}) {
      const auto source = std::make_shared<FlakyNumbers>();
      const MapFunction same([](Example example) { return example; });
      const Dataset dataset =
          Dataset::from(std::shared_ptr<const IndexedSource>(source)).map(same, {.threads = threads}).on_error(policy);
      DatasetIterator iterator = dataset.iterate();
      for (const std::int64_t id : {0, 1, 3, 4}) EXPECT_EQ(ids_of(*iterator.next())[0], id);
      EXPECT_TRUE(contains(whole_error_text<DataError>([&] { iterator.next(); }), "'five' cannot be opened"));
      EXPECT_EQ(iterator.statistics().skipped_records, 1);
      EXPECT_TRUE(contains(iterator.statistics().last_skipped, "record 2 is damaged"));
      source->fails = false;
      DatasetIterator again = dataset.iterate(iterator.position());
      EXPECT_EQ(flat(drain(again)), (std::vector<std::int64_t>{5, 6, 7, 8, 9}));
    }
  }
}

TEST(UnreadableFiles, AreNoPartOfAnIdentityThatIsRemembered) {
  if (testing_support::kIsSanitized) GTEST_SKIP() << kBlindSanitizer;
  const TemporaryFolder folder;
  const auto path = folder.file("a.tfrecord", "bytes");
  const auto source = tfrecord_source({path}, {{.name = "x"}});
  {
    const NoMoreFiles none;
    EXPECT_TRUE(contains(whole_error_text<DataError>([&] { (void)source->identity(); }), "SF-E411"));
    EXPECT_TRUE(contains(whole_error_text<DataError>([&] { (void)identity_of_files({path}); }), "SF-E411"));
    EXPECT_EQ(size_for_identity(path), 5U) << "for which nothing is opened";
  }
  EXPECT_EQ(source->identity(), tfrecord_source({path}, {{.name = "x"}})->identity());
  EXPECT_EQ(size_for_identity(folder.path() / "gone"), 0U);
  // A file that is not there is known by its name alone.
  EXPECT_NE(identity_of_files({folder.path() / "gone"}), "");
}

}  // namespace
}  // namespace sectionflow

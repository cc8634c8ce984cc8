// Names of classes, in a file beside the data and in records.

#include "sources/class_names.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/rows.h"
#include "data/tf_example.h"
#include "sources/convert.h"
#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing_support::contains;

/// Pictures of a pixel with these labels.
std::shared_ptr<const IndexedSource> pixels(const std::vector<std::int32_t>& labels) {
  const auto count = static_cast<std::int64_t>(labels.size());
  Example tensors;
  tensors.emplace("image", HostTensor(Dtype::u8, {count, 1, 1, 3}));
  tensors.emplace("label", HostTensor::of<std::int32_t>({count}, labels));
  return rows_of("pixels", std::move(tensors));
}

TEST(ClassNames, ComeBackFromTheFileBesideTheData) {
  const TemporaryFolder folder;
  const ClassNames names = class_names_of({"cat", "dog: large", "a b", " outer space\t ", ""});
  EXPECT_EQ(read_class_names(folder.path()), ClassNames()) << "none are told";
  write_class_names(folder.path(), names);
  EXPECT_EQ(bytes_of_file(folder.path() / "labels.txt"), "0:cat\n1:dog: large\n2:a b\n3: outer space\t \n4:\n");
  EXPECT_EQ(read_class_names(folder.path()), names);
  folder.file("labels.txt", "7:seven\r\n\n \t\r\n-1: none \n");
  EXPECT_EQ(read_class_names(folder.path()), (ClassNames{{-1, " none "}, {7, "seven"}}));
  EXPECT_THROW(write_class_names(folder.path(), {{0, "two\nlines"}}), ArgumentError);
}

TEST(ClassNames, ALineThatIsNoneIsNamed) {
  const TemporaryFolder folder;
  for (const char* line : {"cat", "0", "0 cat", ":cat", "99999999999999999999:cat", "0:another"}) {
    folder.file("labels.txt", std::string("0:cat\n") + line + "\n");
    EXPECT_TRUE(contains(error_text<DataError>([&] { read_class_names(folder.path()); }), "line 2: ")) << line;
  }
}

TEST(ClassNames, RecordsTellThemWhereTheyWereGiven) {
  const TemporaryFolder folder;
  const ClassNames names = class_names_of({"cat", "dog", "fish"});
  const auto named = write_image_tfrecords(folder.path(), "named", *pixels({2, 0, 2}), {}, names);
  EXPECT_EQ(class_names_of_records(named), (ClassNames{{0, "cat"}, {2, "fish"}})) << "those that there are records of";
  const auto nameless = write_image_tfrecords(folder.path(), "nameless", *pixels({1}));
  EXPECT_EQ(class_names_of_records(nameless), ClassNames());
  EXPECT_TRUE(contains(error_text<DataError>([&] {
                         write_image_tfrecords(folder.path(), "more", *pixels({0, 3}), {}, names);
                       }),
                       "example 1: its class 3 has no name"));
  const auto other = write_image_tfrecords(folder.path(), "other", *pixels({0}), {}, {{0, "lion"}});
  EXPECT_TRUE(contains(error_text<DataError>([&] {
                         class_names_of_records({named[0], other[0]});
                       }),
                       "class 0 is called 'cat' and 'lion'"));
}

}  // namespace
}  // namespace sectionflow

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "data/rows.h"
#include "sources/convert.h"
#include "sources/hdf5.h"
#include "sources/lmdb.h"
#include "sources/missing_library.h"
#include "sources/npz.h"
#include "tests/sources/pictures.h"
#include "tests/support/contains.h"
#include "tests/support/damaged_bytes.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing_support::contains;
using testing_support::expect_read_or_refused;
using testing_support::png_of;
using testing_support::some_picture;

std::shared_ptr<const IndexedSource> numbered_pictures(std::int64_t count, std::int64_t side = 2) {
  HostTensor images(Dtype::u8, {count, side, side, 3}), labels(Dtype::i32, {count});
  for (std::size_t i = 0; i < images.num_bytes(); ++i) images.bytes()[i] = static_cast<std::byte>(7 * i + 1);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    labels.values<std::int32_t>()[i] = static_cast<std::int32_t>(i) - 1;
  Example tensors;
  tensors.emplace("image", std::move(images));
  tensors.emplace("label", std::move(labels));
  return rows_of("pictures", std::move(tensors));
}

/// A new file: to write an old one anew waits for the disk on some file systems, which thousands of files should not.
std::filesystem::path fresh_file(const TemporaryFolder& folder, const std::string& name, const std::string& bytes) {
  std::filesystem::remove(folder.path() / name);
  return folder.file(name, bytes);
}

class OneExample final : public IndexedSource {
 public:
  explicit OneExample(HostTensor image) : image_(std::move(image)) {}
  std::string name() const override { return "one"; }
  std::int64_t size() const override { return 1; }
  Example at(std::int64_t) const override {
    Example example;
    example.emplace("image", image_.clone());
    example.emplace("label", HostTensor::scalar<std::int64_t>(3));
    return example;
  }

 private:
  HostTensor image_;
};

TEST(MissingLibrary, NamesThePackageThatBringsIt) {
  const std::string text = whole_error_text<DataError>([] { missing_library("read_npz", "libzip", "libzip-dev"); });
  EXPECT_TRUE(contains(text, "SF-E408 DataError: read_npz: ")) << text;
  EXPECT_TRUE(contains(text, "install libzip-dev")) << text;
}

TEST(Lmdb, PicturesOfEverySizeComeBackAndManyFillSeveralPages) {
  const TemporaryFolder folder;
  for (const std::int64_t side : {1, 30, 70}) {
    const auto pictures = numbered_pictures(300, side);
    const auto path = folder.path() / std::to_string(side);
    EXPECT_EQ(write_lmdb(path, *pictures), 300);
    const auto source = lmdb_source(path);
    EXPECT_EQ(source->size(), 300);
    const auto stream = source->open();
    for (std::int64_t i = 0; i < 300; ++i) {
      const auto example = stream->next();
      ASSERT_TRUE(example.has_value());
      ASSERT_TRUE(bitwise_equal(example->at("image"), pictures->at(i).at("image"))) << side << ' ' << i;
      ASSERT_EQ(example->at("label").item<std::int32_t>(), i - 1);
    }
    EXPECT_FALSE(stream->next().has_value());
    EXPECT_FALSE(stream->next().has_value());
    const auto other = source->open();
    EXPECT_EQ(other->skip(298), 298);
    EXPECT_EQ(other->next()->at("label").item<std::int32_t>(), 297);
    EXPECT_EQ(other->skip(5), 1);
  }
  EXPECT_EQ(folder.num_files(), 3U);
}

TEST(Lmdb, StreamsOfOneSourceReadSideBySide) {
  const TemporaryFolder folder;
  const auto pictures = numbered_pictures(200, 4);
  write_lmdb(folder.path() / "db", *pictures);
  const auto source = lmdb_source(folder.path() / "db");
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int reading = 0; reading < 5; ++reading) {
        const auto stream = source->open();
        for (std::int32_t i = 0; i < 200; ++i)
          wrong += stream->next()->at("label").item<std::int32_t>() == i - 1 ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Lmdb, GrowsBeyondItsFirstSize) {
  const TemporaryFolder folder;
  const auto pictures = numbered_pictures(30, 900);  // 73 MB
  EXPECT_EQ(write_lmdb(folder.path() / "large", *pictures), 30);
  const auto stream = lmdb_source(folder.path() / "large")->open();
  EXPECT_EQ(stream->skip(29), 29);
  EXPECT_TRUE(bitwise_equal(stream->next()->at("image"), pictures->at(29).at("image")));
}

TEST(Lmdb, FilesInRecordsAreDecodedOrGivenAsTheyAre) {
  const TemporaryFolder folder;
  const HostTensor picture = some_picture(4, 5, 3);
  const std::string file = png_of(picture);
  HostTensor bytes(Dtype::u8, {static_cast<std::int64_t>(file.size())});
  std::copy(file.begin(), file.end(), reinterpret_cast<char*>(bytes.bytes()));
  write_lmdb(folder.path() / "files", OneExample(bytes.clone()));
  EXPECT_TRUE(bitwise_equal(lmdb_source(folder.path() / "files")->open()->next()->at("image"), picture));
  EXPECT_TRUE(
      bitwise_equal(lmdb_source(folder.path() / "files", {.decode = false})->open()->next()->at("image"), bytes));
  write_lmdb(folder.path() / "floats", OneExample(HostTensor::of<float>({1, 2, 1}, {1.5F, -2})));
  EXPECT_TRUE(bitwise_equal(lmdb_source(folder.path() / "floats" / "data.mdb")->open()->next()->at("image"),
                            HostTensor::of<float>({1, 2, 1}, {1.5F, -2})));
}

TEST(Lmdb, WhatCannotBeWrittenLeavesNothing) {
  const TemporaryFolder folder;
  EXPECT_THROW(write_lmdb(folder.path() / "bad", OneExample(HostTensor(Dtype::f64, {2, 2, 1}))), DataError);
  EXPECT_THROW(write_lmdb(folder.path() / "bad", OneExample(HostTensor(Dtype::u8, {20}))), DataError);
  EXPECT_EQ(folder.num_files(), 0U);
  EXPECT_THROW(write_lmdb(folder.path() / "none" / "x", *numbered_pictures(1)), DataError);
  write_lmdb(folder.path() / "there", *numbered_pictures(1));
  EXPECT_TRUE(contains(error_text<DataError>([&] { write_lmdb(folder.path() / "there", *numbered_pictures(1)); }),
                       "is there already"));
  EXPECT_EQ(folder.num_files(), 1U);
  Example nothing;
  nothing.emplace("image", HostTensor(Dtype::u8, {0, 1, 1, 1}));
  nothing.emplace("label", HostTensor(Dtype::i32, {0}));
  write_lmdb(folder.path() / "empty", *rows_of("none", std::move(nothing)));
  EXPECT_FALSE(lmdb_source(folder.path() / "empty")->open()->next().has_value());
  EXPECT_THROW(lmdb_source(folder.path() / "gone"), DataError);
}

/// Reads all that a source still has; an error ends it.
void read_all(const StreamSource& source) {
  const auto stream = source.open();
  for (int i = 0; i < 1000 && stream->next().has_value(); ++i) continue;
}

TEST(Lmdb, DamagedFilesAreReadOrRefused) {
  const TemporaryFolder folder;
  write_lmdb(folder.path() / "some", *numbered_pictures(3, 40));  // a value on pages of its own
  const std::string bytes = bytes_of_file(folder.path() / "some" / "data.mdb");
  ASSERT_GT(bytes.size(), 12288U);
  for (std::size_t length = 0; length < bytes.size(); length += 97) {
    ASSERT_THROW(lmdb_source(fresh_file(folder, "cut.mdb", bytes.substr(0, length))), DataError) << length;
  }
  int refused = 0;
  for (std::size_t byte = 0; byte < bytes.size(); ++byte) {
    // Of pages what is nothing but zeros is not in use.
    const std::size_t bit = (byte * 5) % 8;
    if (bytes[byte] == 0 && byte % 16 != 0 && byte % 4096 > 256) continue;
    std::string damaged = bytes;
    damaged[byte] = static_cast<char>(damaged[byte] ^ 1 << bit);
    const auto file = fresh_file(folder, "damaged.mdb", damaged);
    try {
      read_all(*lmdb_source(file));
    } catch (const DataError& error) {
      ++refused;
      ASSERT_TRUE(contains(error.what(), "damaged.mdb")) << error.what();
    }
  }
  EXPECT_GT(refused, 50);
}

TEST(Npz, ArraysComeBackCompressedAndPlain) {
  const TemporaryFolder folder;
  Example tensors;
  tensors.emplace("x", HostTensor::of<float>({2, 2}, {1, 2, 3, 4}));
  tensors.emplace("labels", HostTensor(Dtype::i64, {1000}));
  tensors.emplace("none", HostTensor(Dtype::u8, {0}));
  for (const bool compressed : {false, true}) {
    const auto path = folder.path() / "file.npz";
    write_npz(path, tensors, compressed);
    const Example read = read_npz(path);
    ASSERT_EQ(read.size(), 3U);
    for (const auto& [name, tensor] : tensors) EXPECT_TRUE(bitwise_equal(read.at(name), tensor)) << name;
    const std::string bytes = bytes_of_file(path);
    write_npz(path, tensors, compressed);
    EXPECT_EQ(bytes_of_file(path), bytes);
    EXPECT_EQ(bytes.size() < 2000, compressed);
    EXPECT_THROW(read_npz(path, 8000), DataError);
  }
  write_npz(folder.path() / "empty.npz", {});
  EXPECT_EQ(read_npz(folder.path() / "empty.npz").size(), 0U);
  Example wrong;
  wrong.emplace("a/b", HostTensor(Dtype::f32, {1}));
  EXPECT_THROW(write_npz(folder.path() / "wrong.npz", wrong), ArgumentError);
  EXPECT_THROW(read_npz(folder.path() / "gone.npz"), DataError);
  EXPECT_THROW(read_npz(folder.file("text.npz", "no archive")), DataError);
}

TEST(Npz, DamagedFilesAreReadOrRefused) {
  const TemporaryFolder folder;
  Example tensors;
  tensors.emplace("x", HostTensor::of<float>({2, 2}, {1, 2, 3, 4}));
  for (const bool compressed : {false, true}) {
    write_npz(folder.path() / "file.npz", tensors, compressed);
    expect_read_or_refused(bytes_of_file(folder.path() / "file.npz"), [&](const std::string& damaged) {
      const Example read = read_npz(fresh_file(folder, "damaged.npz", damaged));
      // The archive's checksum is over all of an array.
      for (const auto& [name, tensor] : read) EXPECT_TRUE(bitwise_equal(tensor, tensors.at("x"))) << name;
    });
  }
}

TEST(Hdf5, RowsThatWereAppendedComeBack) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "features.h5";
  {
    Hdf5Writer writer(path);
    writer.append("features", HostTensor::of<float>({2, 2}, {0, 1, 2, 3}));
    writer.append("labels", HostTensor::of<std::int64_t>({3}, {5, 6, 7}));
    writer.append("features", HostTensor(Dtype::f32, {0, 2}));
    writer.append("features", HostTensor::of<float>({1, 2}, {4, 5}));
    EXPECT_THROW(writer.append("features", HostTensor(Dtype::f32, {1, 3})), ShapeError);
    EXPECT_THROW(writer.append("features", HostTensor(Dtype::f64, {1, 2})), ShapeError);
    EXPECT_THROW(writer.append("scalar", HostTensor(Dtype::f32, {})), ShapeError);
    EXPECT_THROW(writer.append("a/b", HostTensor(Dtype::f32, {1})), ArgumentError);
    EXPECT_THROW(writer.append("", HostTensor(Dtype::f32, {1})), ArgumentError);
    EXPECT_THROW(writer.append("flags", HostTensor(Dtype::boolean, {1})), ArgumentError);
    EXPECT_FALSE(std::filesystem::exists(path));
    writer.finish();
  }
  EXPECT_EQ(folder.num_files(), 1U);
  EXPECT_TRUE(bitwise_equal(read_hdf5(path, "features"), HostTensor::of<float>({3, 2}, {0, 1, 2, 3, 4, 5})));
  EXPECT_THROW(read_hdf5(path, "features", 23), DataError);
  const auto source = hdf5_source(path, {{"x", "/features"}, {"label", "labels"}});
  EXPECT_EQ(source->size(), 3);
  EXPECT_TRUE(bitwise_equal(source->at(1).at("x"), HostTensor::of<float>({2}, {2, 3})));
  EXPECT_EQ(source->at(2).at("label").item<std::int64_t>(), 7);
  EXPECT_THROW(source->at(3), ArgumentError);
  EXPECT_TRUE(contains(error_text<DataError>([&] { hdf5_source(path, {{"x", "nothing"}}); }), "dataset 'nothing'"));
  EXPECT_THROW(hdf5_source(path, {}), ArgumentError);
  EXPECT_THROW(read_hdf5(folder.file("text.h5", "no HDF5"), "x"), DataError);
  EXPECT_THROW(read_hdf5(folder.path() / "gone.h5", "x"), DataError);
}

TEST(Hdf5, EveryDtypeAndNoRowsAtAllComeBack) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "all.h5";
  Hdf5Writer writer(path);
  const std::vector<Dtype> dtypes = {Dtype::f32, Dtype::f64, Dtype::i32, Dtype::i64, Dtype::u8};
  for (const Dtype dtype : dtypes) {
    HostTensor tensor(dtype, {3, 1});
    for (std::size_t i = 0; i < tensor.num_bytes(); ++i) tensor.bytes()[i] = static_cast<std::byte>(i * 31 + 200);
    writer.append(std::string(dtype_name(dtype)), tensor);
  }
  writer.append("none", HostTensor(Dtype::f32, {0, 4}));
  writer.finish();
  for (const Dtype dtype : dtypes) {
    const HostTensor read = read_hdf5(path, std::string(dtype_name(dtype)));
    ASSERT_EQ(read.type(), (TensorType{dtype, {3, 1}}));
    for (std::size_t i = 0; i < read.num_bytes(); ++i) ASSERT_EQ(read.bytes()[i], static_cast<std::byte>(i * 31 + 200));
  }
  EXPECT_EQ(read_hdf5(path, "none").type(), (TensorType{Dtype::f32, {0, 4}}));
}

TEST(Hdf5, RowsBeyondTheLimitAreRefused) {
  const TemporaryFolder folder;
  Hdf5Writer writer(folder.path() / "file.h5");
  writer.append("x", HostTensor(Dtype::f32, {4, 3}));
  writer.append("none", HostTensor(Dtype::f32, {0, 100}));
  writer.finish();
  EXPECT_EQ(hdf5_source(folder.path() / "file.h5", {{"x", "x"}}, {.max_row_bytes = 12})->size(), 4);
  EXPECT_EQ(hdf5_source(folder.path() / "file.h5", {{"x", "none"}}, {.max_row_bytes = 12})->size(), 0);
  const std::string text = whole_error_text<DataError>([&] {
    (void)hdf5_source(folder.path() / "file.h5", {{"x", "x"}}, {.max_row_bytes = 11});
  });
  EXPECT_TRUE(contains(text, "dataset 'x': is f32[4,3]; rows have at most 11 B")) << text;
  EXPECT_TRUE(contains(text, "max_row_bytes")) << text;
}

TEST(Hdf5, ADatasetThatIsNotThereIsRefusedWithThoseThatAre) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file.h5";
  Hdf5Writer writer(path);
  writer.append("images", HostTensor(Dtype::f32, {4, 3}));
  writer.append("labels", HostTensor(Dtype::i32, {4}));
  writer.finish();
  for (const char* name : {"image", "/image"}) {
    const std::string text = whole_error_text<DataError>([&] { (void)hdf5_source(path, {{"x", name}}); });
    EXPECT_TRUE(contains(text, text_of("there is no dataset '", name, "'; there are '/images', '/labels'"))) << text;
    EXPECT_TRUE(contains(text, "is '/images' the one that is meant?")) << text;
  }
  const std::string text = whole_error_text<DataError>([&] { (void)read_hdf5(path, "group/weights"); });
  EXPECT_TRUE(contains(text, "there is no dataset 'group/weights'") && contains(text, "list_hdf5")) << text;
}

TEST(Hdf5, TruncatedFilesAreRefused) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file.h5";
  Hdf5Writer writer(path);
  writer.append("x", HostTensor::of<float>({2}, {1, 2}));
  writer.finish();
  const std::string bytes = bytes_of_file(path);
  for (std::size_t length = 0; length < bytes.size(); length += 11)
    EXPECT_THROW(read_hdf5(fresh_file(folder, "cut.h5", bytes.substr(0, length)), "x"), DataError) << length;
}

TEST(WriteImageTfrecords, PicturesAndFilesHaveTheFeaturesThatReadersLookFor) {
  const TemporaryFolder folder;
  const auto pictures = numbered_pictures(5);
  const auto files = write_image_tfrecords(folder.path(), "train", *pictures, {.shard_bytes = 300});
  EXPECT_GT(files.size(), 1U);
  const auto stream =
      tfrecord_source(files,
                      {{.name = "image/encoded", .dtype = Dtype::u8, .shape = {2, 2, 3}, .kind = FeatureKind::bytes},
                       {.name = "image/class/label", .dtype = Dtype::i32},
                       {.name = "image/height", .dtype = Dtype::i64},
                       {.name = "image/format", .dtype = Dtype::u8, .shape = {3}, .kind = FeatureKind::bytes}})
          ->open();
  for (int i = 0; i < 5; ++i) {
    const auto example = stream->next();
    ASSERT_TRUE(bitwise_equal(example->at("image/encoded"), pictures->at(i).at("image")));
    ASSERT_EQ(example->at("image/class/label").item<std::int32_t>(), i - 1);
    ASSERT_EQ(example->at("image/height").item<std::int64_t>(), 2);
    ASSERT_EQ(example->at("image/format").values<std::uint8_t>()[0], 'r');
  }
  const std::string file = png_of(some_picture(3, 3, 3));
  HostTensor bytes(Dtype::u8, {static_cast<std::int64_t>(file.size())});
  std::copy(file.begin(), file.end(), reinterpret_cast<char*>(bytes.bytes()));
  const auto written = write_image_tfrecords(folder.path(), "files", OneExample(std::move(bytes)));
  const auto example = tfrecord_source(written, image_tfrecord_schema())->open()->next();
  EXPECT_TRUE(bitwise_equal(decode_image(example->at("image/encoded")), some_picture(3, 3, 3)));
  EXPECT_THROW(write_image_tfrecords(folder.path(), "bad", OneExample(HostTensor(Dtype::f32, {2, 2, 1}))), DataError);
}

}  // namespace
}  // namespace sectionflow

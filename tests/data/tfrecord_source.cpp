#include "data/tfrecord_source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/contains.h"
#include "tests/support/damaged_bytes.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing_support::contains;
using testing_support::expect_read_or_refused;
using namespace std::string_literals;

Example some_example(int number) {
  Example example;
  example.emplace("image", HostTensor::of<std::uint8_t>({2, 2}, {0, 128, 255, static_cast<std::uint8_t>(number)}));
  example.emplace("label", HostTensor::scalar<std::int32_t>(-number));
  example.emplace("weights", HostTensor::of<float>({3}, {1.5F, -0.0F, std::numeric_limits<float>::quiet_NaN()}));
  example.emplace("ids", HostTensor::of<std::int64_t>({2}, {std::numeric_limits<std::int64_t>::min(), 7}));
  example.emplace("double", HostTensor::scalar<double>(0.1));
  example.emplace("flag", HostTensor::of<bool>({2}, {true, false}));
  example.emplace("half", HostTensor::of<BFloat16>({1}, {BFloat16(2.5F)}));
  example.emplace("nothing", HostTensor(Dtype::f32, {0}));
  return example;
}

bool are_equal(const Example& a, const Example& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, tensor] : a) {
    const auto found = b.find(name);
    if (found == b.end() || !bitwise_equal(tensor, found->second)) return false;
  }
  return true;
}

std::string tf_example_refusal(const std::string& record, const FeatureSchema& schema) {
  const std::string text = whole_error_text<DataError>([&] { parse_tf_example(record, schema, "here: "); });
  EXPECT_TRUE(text.starts_with("SF-E410 DataError: here: ")) << text;
  return text;
}

TEST(TfExample, TensorsOfEveryDtypeComeBackBitForBit) {
  const Example example = some_example(3);
  const std::string bytes = serialize_tf_example(example);
  EXPECT_TRUE(are_equal(parse_tf_example(bytes, schema_of(example), ""), example));
  EXPECT_EQ(serialize_tf_example(some_example(3)), bytes);
}

TEST(TfExample, BytesAreThoseOfTheFormat) {
  Example example;
  example.emplace("x", HostTensor::of<std::int64_t>({2}, {1, 300}));
  // features { feature { key: "x" value { int64_list { value: [1, 300] } } } }
  EXPECT_EQ(serialize_tf_example(example), "\x0a\x0e\x0a\x0c\x0a\x01x\x12\x07\x1a\x05\x0a\x03\x01\xac\x02"s);
  // The same numbers one by one, as older writers put them.
  const std::string unpacked = "\x0a\x0e\x0a\x0c\x0a\x01x\x12\x07\x1a\x05\x08\x01\x08\xac\x02"s;
  EXPECT_TRUE(are_equal(parse_tf_example(unpacked, schema_of(example), ""), example));
}

TEST(TfExample, VariableLengthsTakeWhatIsThereAndAbsenceIsNone) {
  Example example;
  example.emplace("ids", HostTensor::of<std::int64_t>({6}, {1, 2, 3, 4, 5, 6}));
  const std::string bytes = serialize_tf_example(example);
  const Example read = parse_tf_example(bytes,
                                        {{.name = "ids", .dtype = Dtype::i32, .shape = {kDynamic, 2}},
                                         {.name = "other", .dtype = Dtype::f32, .shape = {kDynamic}}},
                                        "");
  EXPECT_TRUE(bitwise_equal(read.at("ids"), HostTensor::of<std::int32_t>({3, 2}, {1, 2, 3, 4, 5, 6})));
  EXPECT_EQ(read.at("other").type(), (TensorType{Dtype::f32, {0}}));
  EXPECT_TRUE(contains(tf_example_refusal(bytes, {{.name = "ids", .dtype = Dtype::i32, .shape = {kDynamic, 4}}}),
                       "has 6 elements"));
}

TEST(TfExample, WhatDoesNotFitTheSchemaIsRefusedByName) {
  const std::string bytes = serialize_tf_example(some_example(3));
  EXPECT_TRUE(
      contains(tf_example_refusal(bytes, {{.name = "absent"}}), "feature 'absent' f32[] is absent; the record has '"));
  const std::string misspelt =
      whole_error_text<DataError>([&] { (void)parse_tf_example(bytes, {{.name = "lable"}}, ""); });
  EXPECT_TRUE(contains(misspelt, "'label'") && contains(misspelt, "is 'label' the one that is meant?")) << misspelt;
  EXPECT_TRUE(contains(tf_example_refusal(bytes, {{.name = "label"}}), "is a int64_list; wanted a float_list"));
  EXPECT_TRUE(
      contains(tf_example_refusal(bytes, {{.name = "label", .dtype = Dtype::u8}}), "has the number -3 at element 0"));
  EXPECT_TRUE(contains(tf_example_refusal(bytes, {{.name = "weights", .shape = {2}}}), "has 3 elements"));
  EXPECT_TRUE(contains(
      tf_example_refusal(bytes, {{.name = "image", .dtype = Dtype::i32, .shape = {2}, .kind = FeatureKind::bytes}}),
      "has 1 elements"));
  EXPECT_TRUE(contains(tf_example_refusal("\xff\xff", {{.name = "x"}}), "no tf.train.Example"));
}

TEST(TfExample, SchemasThatCannotBeAreRefused) {
  EXPECT_THROW(check_schema({}), ArgumentError);
  EXPECT_THROW(check_schema({{.name = "a"}, {.name = "a"}}), ArgumentError);
  EXPECT_THROW(check_schema({{.name = "a", .dtype = Dtype::f64}}), ArgumentError);
  EXPECT_THROW(check_schema({{.name = "a", .shape = {2, kDynamic}}}), ArgumentError);
  EXPECT_THROW(check_schema({{.name = "a", .shape = {kDynamic, 0}}}), ArgumentError);
  EXPECT_NO_THROW(check_schema({{.name = "a", .dtype = Dtype::f64, .kind = FeatureKind::bytes}}));
}

TEST(TfExample, DamagedRecordsAreReadOrRefused) {
  const Example example = some_example(3);
  const FeatureSchema schema = schema_of(example);
  expect_read_or_refused(serialize_tf_example(example),
                         [&](const std::string& damaged) { parse_tf_example(damaged, schema, ""); });
}

TEST(TfrecordSource, ReadsWhatAWriterHasCutIntoFiles) {
  const TemporaryFolder folder;
  for (const Compression compression : {Compression::none, Compression::gzip}) {
    const std::string prefix = compression == Compression::none ? "plain" : "packed";
    TfrecordWriter writer(folder.path() / "data", prefix, {.shard_bytes = 1000, .compression = compression});
    for (int i = 0; i < 20; ++i) writer.write(some_example(i));
    const auto files = writer.finish();
    EXPECT_GT(files.size(), 2U);
    EXPECT_EQ(files[1].filename(), prefix + "-00001.tfrecord");
    const auto source = tfrecord_source(files, schema_of(some_example(0)));
    for (int reading = 0; reading < 2; ++reading) {
      const auto stream = source->open();
      for (int i = 0; i < 20; ++i) ASSERT_TRUE(are_equal(*stream->next(), some_example(i)));
      EXPECT_FALSE(stream->next().has_value());
    }
    const auto stream = source->open();
    EXPECT_EQ(stream->skip(13), 13);
    EXPECT_TRUE(are_equal(*stream->next(), some_example(13)));
    EXPECT_EQ(stream->skip(100), 6);
    EXPECT_FALSE(stream->next().has_value());
  }
  EXPECT_GT(files_in(folder.path() / "data").size(), 4U);
  EXPECT_THROW(files_in(folder.path()), DataError);
  EXPECT_THROW(files_in(folder.path() / "none"), DataError);
}

TEST(TfrecordSource, GoesOnBehindWhatIsDamagedAndWithTheNextFile) {
  const TemporaryFolder folder;
  const FeatureSchema schema = {{.name = "label", .dtype = Dtype::i32}};
  std::vector<std::filesystem::path> files;
  for (int file = 0; file < 3; ++file) {
    TfrecordWriter writer(folder.path(), std::to_string(file));
    for (int i = 0; i < 3; ++i) {
      Example example;
      example.emplace("label", HostTensor::scalar<std::int32_t>(10 * file + i));
      writer.write(example);
    }
    files.push_back(writer.finish().at(0));
  }
  std::string first = bytes_of_file(files[0]), second = bytes_of_file(files[1]);
  const std::size_t record = first.size() / 3;
  first[record + 14] ^= 1;  // bytes of record 1
  second[record] ^= 1;      // the length of record 1
  folder.file(files[0].filename(), first);
  folder.file(files[1].filename(), second);
  const auto stream = tfrecord_source(files, schema)->open();
  std::vector<int> labels;
  std::vector<std::string> errors;
  for (int i = 0; i < 100; ++i) {
    try {
      const auto example = stream->next();
      if (!example.has_value()) break;
      labels.push_back(example->at("label").item<std::int32_t>());
    } catch (const DataError& error) {
      errors.emplace_back(error.what());
    }
  }
  EXPECT_EQ(labels, (std::vector<int>{0, 2, 10, 20, 21, 22}));
  ASSERT_EQ(errors.size(), 2U);
  EXPECT_TRUE(contains(errors[0], files[0].string() + "': record 1 at byte " + std::to_string(record))) << errors[0];
  EXPECT_TRUE(contains(errors[1], files[1].string() + "': record 1 at byte " + std::to_string(record))) << errors[1];
}

TEST(TfrecordSource, LeavesOutWhatIsLeftOfAFile) {
  const TemporaryFolder folder;
  Example example;
  example.emplace("label", HostTensor::scalar<std::int32_t>(1));
  std::vector<std::filesystem::path> files;
  for (const char* name : {"a", "b"}) {
    TfrecordWriter writer(folder.path(), name);
    for (int i = 0; i < 3; ++i) writer.write(example);
    files.push_back(writer.finish().at(0));
  }
  std::string bytes = bytes_of_file(files[0]);
  bytes[14] ^= 1;
  folder.file(files[0].filename(), bytes);
  const auto stream = tfrecord_source(files, schema_of(example))->open();
  EXPECT_THROW(stream->next(), DataError);
  EXPECT_TRUE(stream->skip_file());
  EXPECT_EQ(stream->skip(10), 3);
  EXPECT_FALSE(stream->skip_file());
  EXPECT_FALSE(stream->next().has_value());
}

TEST(TfrecordSource, MissingFilesAreNamedAtOnce) {
  const TemporaryFolder folder;
  EXPECT_THROW(tfrecord_source({}, {{.name = "x"}}), ArgumentError);
  EXPECT_TRUE(
      contains(error_text<DataError>([&] { tfrecord_source({folder.path() / "gone"}, {{.name = "x"}}); }), "gone"));
}

std::vector<std::filesystem::path> write_labels(const std::filesystem::path& folder, std::int32_t first, int count,
                                                bool overwrite) {
  TfrecordWriter writer(folder, "train", {.shard_bytes = 1, .overwrite = overwrite});
  for (int i = 0; i < count; ++i) {
    Example example;
    example.emplace("label", HostTensor::scalar<std::int32_t>(first + i));
    writer.write(example);
  }
  return writer.finish();
}

TEST(TfrecordWriter, NeverMixesADataSetWithTheOneThatWasThere) {
  const TemporaryFolder folder;
  const std::vector<std::filesystem::path> old = write_labels(folder.path(), 0, 4, false);
  ASSERT_EQ(old.size(), 4U);
  const std::vector<std::string> others = {"train-extra-00000.tfrecord", "train-1.tfrecord", "trainer-00007.tfrecord",
                                           "train-00000.tfrecord.gz", "train-0000x.tfrecord"};
  for (const std::string& other : others) folder.file(other, "");
  EXPECT_EQ(shards_in(folder.path(), "train"), old);
  const std::string refused = error_text<ArgumentError>([&] { write_labels(folder.path(), 100, 2, false); });
  EXPECT_TRUE(contains(refused, old.front().string() + "' is there already, with 4 shards")) << refused;
  EXPECT_EQ(shards_in(folder.path(), "train"), old);
  const std::vector<std::filesystem::path> files = write_labels(folder.path(), 100, 2, true);
  EXPECT_EQ(shards_in(folder.path(), "train"), files);
  EXPECT_EQ(folder.num_files(), files.size() + others.size());
  const auto stream = tfrecord_source(files, {{.name = "label", .dtype = Dtype::i32}})->open();
  for (const std::int32_t wanted : {100, 101}) EXPECT_EQ(stream->next()->at("label").item<std::int32_t>(), wanted);
  EXPECT_FALSE(stream->next().has_value());
}

TEST(TfrecordWriter, TouchesNothingThatWasThereBeforeItIsFinished) {
  const TemporaryFolder folder;
  const std::vector<std::filesystem::path> old = write_labels(folder.path(), 0, 3, false);
  const std::string first = bytes_of_file(old.front());
  {
    TfrecordWriter writer(folder.path(), "train", {.shard_bytes = 1, .overwrite = true});
    for (int i = 0; i < 2; ++i) writer.write(std::string("another data set"));
    EXPECT_EQ(shards_in(folder.path(), "train"), old);
    EXPECT_EQ(bytes_of_file(old.front()), first);
    EXPECT_EQ(folder.num_files(), old.size() + 2) << "the new shards are on the disk, under other names";
  }
  EXPECT_EQ(shards_in(folder.path(), "train"), old);
  EXPECT_EQ(bytes_of_file(old.front()), first);
  EXPECT_EQ(folder.num_files(), old.size());
  EXPECT_TRUE(shards_in(folder.path() / "none", "train").empty());
}

TEST(TfrecordWriter, RefusesAFolderInAShardsPlaceBeforeItWrites) {
  const TemporaryFolder folder;
  const std::filesystem::path taken = folder.path() / "train-00001.tfrecord";
  std::filesystem::create_directory(taken);
  const std::string refused =
      error_text<DataError>([&] { TfrecordWriter(folder.path(), "train", {.overwrite = true}); });
  EXPECT_TRUE(contains(refused, taken.string() + "' is a folder")) << refused;
  EXPECT_TRUE(std::filesystem::is_directory(taken));
}

TEST(TfrecordWriter, LeavesNoHalfFileBehind) {
  const TemporaryFolder folder;
  {
    TfrecordWriter writer(folder.path(), "half", {.shard_bytes = 100});
    for (int i = 0; i < 3; ++i) writer.write(std::string(70, 'x'));
  }
  EXPECT_EQ(folder.num_files(), 0U);
  EXPECT_EQ(TfrecordWriter(folder.path(), "empty").finish().size(), 1U);
  EXPECT_EQ(folder.num_files(), 1U);
  EXPECT_THROW(TfrecordWriter(folder.path(), "a/b"), ArgumentError);
  EXPECT_THROW(TfrecordWriter(folder.path(), "a", {.shard_bytes = 0}), ArgumentError);
  EXPECT_THROW(TfrecordWriter(folder.path(), "a", {.compression = Compression::automatic}), ArgumentError);
  EXPECT_THROW(TfrecordWriter(folder.file("file", ""), "a"), DataError);
}

}  // namespace
}  // namespace sectionflow

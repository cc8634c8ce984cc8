// What is damaged, what is misused, and what throws.

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <stdexcept>
#include <thread>

#include "data/dataset.h"
#include "tests/data/prefetched.h"
#include "tests/support/data_examples.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

Example throws_at_13(Example example) {
  if (ids_of(example)[0] == 13) throw std::domain_error("thirteen");
  return example;
}
Example damaged_at_13(Example example) {
  if (ids_of(example)[0] % 10 == 3) throw DataError("no picture");
  return example;
}

TEST(DatasetErrors, WhatAMapThrowsComesBehindAllThatIsBeforeItAndAgain) {
  for (const Dataset& source : {numbers(40), number_stream(40)}) {
    for (int threads : {1, 2, 5}) {
      SCOPED_TRACE(threads);
      const Dataset dataset = prefetched(source.map(throws_at_13, {.threads = threads}), threads);
      DatasetIterator iterator = dataset.iterate();
      for (std::int64_t id = 0; id < 13; ++id) ASSERT_EQ(ids_of(*iterator.next())[0], id);
      const std::string position = iterator.position();
      for (int call = 0; call < 2; ++call) {
        EXPECT_EQ(whole_error_text<std::domain_error>([&] { (void)iterator.next(); }), "thirteen");
      }
      EXPECT_EQ(iterator.position(), position) << "a walk can be taken up where it failed";
      DatasetIterator again = dataset.iterate(position);
      EXPECT_THROW((void)again.next(), std::domain_error);
    }
  }
}

TEST(DatasetErrors, WhatComesBehindABatchFailsWithIt) {
  for (int threads : {1, 3}) {
    DatasetIterator iterator =
        prefetched(numbers(40).map(throws_at_13, {.threads = threads}).batch({.size = 5, .pad = true}), threads)
            .iterate();
    EXPECT_TRUE(iterator.next().has_value());
    EXPECT_TRUE(iterator.next().has_value());
    EXPECT_THROW((void)iterator.next(), std::domain_error);
  }
}

TEST(DatasetErrors, SourcesFiltersAndGeneratorsMayThrow) {
  const auto generator = [](std::int64_t number) -> std::optional<Example> {
    if (number == 3) throw std::length_error("generator");
    return numbered_example(number);
  };
  DatasetIterator generated = Dataset::generate("g", generator).prefetch().iterate();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(generated.next().has_value());
  EXPECT_THROW((void)generated.next(), std::length_error);
  DatasetIterator filtered = numbers(5)
                                 .filter([](const Example& example) {
                                   if (ids_of(example)[0] == 2) throw std::bad_alloc();
                                   return true;
                                 })
                                 .prefetch()
                                 .iterate();
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(filtered.next().has_value());
  EXPECT_THROW((void)filtered.next(), std::bad_alloc);
}

TEST(DatasetErrors, ADamagedRecordFailsNamingFilePlaceAndExample) {
  for (const Dataset& source : {numbers(10, {4}), number_stream(10, {4}, 3)}) {
    DatasetIterator iterator = source.on_error(ErrorPolicy::fail).iterate();
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(iterator.next().has_value());
    const std::string text = whole_error_text<DataError>([&] { (void)iterator.next(); });
    EXPECT_NE(text.find("record at offset 32 is damaged"), std::string::npos) << text;
    EXPECT_NE(text.find("example: 4 of "), std::string::npos) << text;
    EXPECT_NE(text.find("numbers"), std::string::npos) << text;
  }
}

TEST(DatasetErrors, DamagedRecordsAreLeftOutAndCounted) {
  for (const Dataset& source : {numbers(20, {0, 7, 8, 19}), number_stream(20, {0, 7, 8, 19})}) {
    for (int threads : {1, 4}) {
      DatasetIterator iterator =
          prefetched(source.map(damaged_at_13, {.threads = threads}).repeat(2).on_error(ErrorPolicy::skip_record),
                     threads)
              .iterate();
      EXPECT_EQ(drain(iterator).size(), 2U * 14);
      const DatasetStatistics statistics = iterator.statistics();
      EXPECT_EQ(statistics.skipped_records, 2 * 6);
      EXPECT_EQ(statistics.skipped_files, 0);
      // Workers come upon them in any order.
      if (threads > 1) continue;
      EXPECT_NE(statistics.last_skipped.find("offset 152"), std::string::npos) << statistics.last_skipped;
    }
  }
}

TEST(DatasetErrors, DamagedFilesAreLeftOutFromTheDamageOn) {
  DatasetIterator iterator = number_stream(30, {13, 14, 25}, 10).on_error(ErrorPolicy::skip_file).iterate();
  std::vector<std::int64_t> wanted;
  for (std::int64_t id = 0; id < 25; ++id) {
    if (id < 13 || id >= 20) wanted.push_back(id);
  }
  EXPECT_EQ(flat(drain(iterator)), wanted);
  EXPECT_EQ(iterator.statistics().skipped_records, 2);
  EXPECT_EQ(iterator.statistics().skipped_files, 2);
  EXPECT_NE(iterator.statistics().last_skipped.find("numbers-2.bin"), std::string::npos);
}

TEST(DatasetErrors, APolicyIsThatOfWhatComesBeforeIt) {
  // The damaged record is left out by the first, the map behind it fails.
  DatasetIterator iterator = numbers(20, {2}).on_error(ErrorPolicy::skip_record).map(damaged_at_13).iterate();
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(iterator.next().has_value());
  EXPECT_THROW((void)iterator.next(), DataError);
  // Only DataErrors are records that are damaged.
  DatasetIterator other = numbers(20).map(throws_at_13).on_error(ErrorPolicy::skip_record).iterate();
  EXPECT_THROW(drain(other), std::domain_error);
}

TEST(DatasetErrors, WhatIsRepeatedForEverGivesSomething) {
  const auto text = [](const Dataset& dataset) {
    DatasetIterator iterator = dataset.iterate();
    return whole_error_text<ArgumentError>([&] { drain(iterator); });
  };
  EXPECT_NE(whole_error_text<ArgumentError>([] { (void)numbers(0).repeat(); }).find("SF-E405"), std::string::npos);
  EXPECT_NE(text(number_stream(0).repeat()).find("SF-E405"), std::string::npos);
  const auto nothing = [](const Example&) { return false; };
  EXPECT_NE(text(numbers(5).filter(nothing).repeat().prefetch()).find("SF-E405"), std::string::npos);
  for (int threads : {1, 3}) {
    EXPECT_NE(text(numbers(2, {0, 1}).map(scrambled, {.threads = threads}).repeat().on_error(ErrorPolicy::skip_record))
                  .find("SF-E405"),
              std::string::npos);
  }
  EXPECT_NE(text(number_stream(2, {0, 1}).repeat().on_error(ErrorPolicy::skip_record)).find("SF-E405"),
            std::string::npos);
  EXPECT_EQ(drain(numbers(5).filter(nothing).repeat(1000000000)), Ids());
}

TEST(DatasetErrors, ExamplesThatMakeNoBatchAreNamed) {
  const auto text = [](const Dataset& dataset) {
    DatasetIterator iterator = dataset.iterate();
    return whole_error_text<ShapeError>([&] { drain(iterator); });
  };
  const std::string uneven = text(numbers(4).batch({.size = 4}));
  EXPECT_NE(uneven.find("SF-E406"), std::string::npos) << uneven;
  EXPECT_NE(uneven.find("'row' of example 1 of the batch is u8[2], that of the first u8[1]"), std::string::npos)
      << uneven;
  EXPECT_NE(uneven.find(".pad = true"), std::string::npos) << uneven;
  const auto other_names = [](Example example) {
    if (ids_of(example)[0] == 1) example.erase("row");
    return example;
  };
  EXPECT_NE(text(numbers(4).map(other_names).batch({.pad = true}))
                .find("example 1 of the batch has 'id', the first has 'id', 'row'"),
            std::string::npos);
  const auto other_dtype = [](Example example) {
    if (ids_of(example)[0] == 1) example["row"] = HostTensor(Dtype::f32, {3});
    return example;
  };
  EXPECT_NE(text(numbers(4).map(other_dtype).batch({.pad = true})).find("f32[3]"), std::string::npos);
  const BatchOptions scalars{.pad = true, .bucket_boundaries = {2}, .bucket_by = "id"};
  EXPECT_NE(text(numbers(4).batch(scalars)).find("has no length"), std::string::npos);
}

TEST(DatasetErrors, NamesThatNoTensorHasAreToldWithTheNearest) {
  const auto text = [](const Dataset& dataset) {
    DatasetIterator iterator = dataset.iterate();
    return whole_error_text<ArgumentError>([&] { drain(iterator); });
  };
  EXPECT_NE(
      text(numbers(4).batch({.pad = true, .bucket_boundaries = {2}, .bucket_by = "rows"})).find("did you mean 'row'?"),
      std::string::npos);
  EXPECT_NE(text(numbers(4).batch({.pad = true, .pad_values = {{"roe", 1}}})).find("did you mean 'row'?"),
            std::string::npos);
  for (double value :
       {256.0, -1.0, 0.5, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_NE(text(numbers(4).batch({.pad = true, .pad_values = {{"row", value}}})).find("u8 cannot hold"),
              std::string::npos)
        << value;
  }
}

TEST(DatasetErrors, OptionsOutsideTheirRangeAreRefused) {
  const Dataset dataset = numbers(10);
  EXPECT_THROW((void)dataset.batch({.size = 0}), ArgumentError);
  EXPECT_THROW((void)dataset.batch({.bucket_boundaries = {3}}), ArgumentError);
  EXPECT_THROW((void)dataset.batch({.bucket_by = "row"}), ArgumentError);
  EXPECT_THROW((void)dataset.batch({.bucket_boundaries = {3, 3}, .bucket_by = "row"}), ArgumentError);
  EXPECT_THROW((void)dataset.batch({.bucket_boundaries = {0}, .bucket_by = "row"}), ArgumentError);
  EXPECT_THROW((void)dataset.batch({.pad_values = {{"row", 1}}}), ArgumentError);
  EXPECT_THROW((void)dataset.shuffle({.buffer_bytes = 0}), ArgumentError);
  EXPECT_NE(whole_error_text<ArgumentError>([&] { (void)dataset.shuffle({.buffer_bytes = 39}); }).find("takes 40 B"),
            std::string::npos);
  EXPECT_NO_THROW((void)dataset.shuffle({.buffer_bytes = 40}));
  EXPECT_THROW((void)dataset.map(scrambled, {.threads = 0}), ArgumentError);
  EXPECT_THROW((void)dataset.map(scrambled, {.threads = 1000000}), ArgumentError);
  EXPECT_THROW((void)dataset.map(std::function<Example(Example)>()), ArgumentError);
  EXPECT_THROW((void)dataset.map(std::function<Example(Example, const MapContext&)>()), ArgumentError);
  EXPECT_THROW((void)dataset.filter(nullptr), ArgumentError);
  EXPECT_THROW((void)dataset.repeat(-2), ArgumentError);
  EXPECT_THROW((void)dataset.prefetch({.batches = 0}), ArgumentError);
  EXPECT_THROW((void)dataset.take(-1), ArgumentError);
  EXPECT_THROW((void)dataset.skip(-1), ArgumentError);
  EXPECT_THROW((void)dataset.shard(0, 0), ArgumentError);
  EXPECT_THROW((void)dataset.shard(1, 5), ArgumentError);
  EXPECT_THROW((void)dataset.shard(2, -1), ArgumentError);
  EXPECT_THROW((void)dataset.iterate_epoch(-1), ArgumentError);
  EXPECT_THROW((void)Dataset::from(std::shared_ptr<const IndexedSource>()), ArgumentError);
  EXPECT_THROW((void)Dataset::from(std::shared_ptr<const StreamSource>()), ArgumentError);
  EXPECT_THROW((void)Dataset::generate("none", nullptr), ArgumentError);
  EXPECT_THROW((void)dataset.repeat(std::int64_t{1} << 60).repeat(100), ShapeError);
}

TEST(DatasetErrors, SlicesOfAnEndlessRepeatThatReachBeyond63BitsAreRefused) {
  const auto rows = [] {
    Example rows;
    rows.emplace("x", HostTensor::of<float>({3}, {1, 2, 3}));
    return Dataset::from(std::move(rows));
  };
  const Dataset endless = rows().repeat();
  const std::int64_t big = std::int64_t{1} << 62;
  EXPECT_THROW((void)endless.shard(big, 0), ArgumentError);
  EXPECT_THROW((void)endless.skip(big).skip(big), ArgumentError);
  EXPECT_THROW((void)endless.shard(1 << 20, 0).shard(1 << 20, 1), ArgumentError);
  EXPECT_THROW((void)endless.shard(4, 0).take(big), ArgumentError);
  EXPECT_THROW((void)endless.repeat().prefetch().skip(big).skip(big), ArgumentError);
  // What fits is taken from where it is.
  DatasetIterator far = endless.skip(big).shard(1000, 7).take(2).iterate();
  EXPECT_EQ(far.next()->at("x").item<float>(), static_cast<float>((big + 7) % 3 + 1));
  EXPECT_EQ(far.next()->at("x").item<float>(), static_cast<float>((big + 1007) % 3 + 1));
  EXPECT_FALSE(far.next().has_value());
  // Of what has an end, nothing is there.
  DatasetIterator none = rows().repeat(5).skip(big).skip(big).shard(big, 1).iterate();
  EXPECT_FALSE(none.next().has_value());
  EXPECT_NO_THROW((void)endless.take(std::numeric_limits<std::int64_t>::max()));
}

TEST(DatasetErrors, WhatIsSkippedIsNotMadeWithAnyNumberOfThreads) {
  const Dataset filtered = numbers(40).filter([](const Example&) { return true; });
  for (const Dataset& source : {numbers(40), filtered, number_stream(40)}) {
    for (int threads : {1, 2, 5}) {
      SCOPED_TRACE(threads);
      const Dataset mapped = source.map(throws_at_13, {.threads = threads});
      DatasetIterator odd = mapped.shard(2, 0).iterate();
      std::vector<std::int64_t> even;
      for (std::int64_t id = 0; id < 40; id += 2) even.push_back(id);
      EXPECT_EQ(flat(drain(odd)), even);
      DatasetIterator behind = mapped.skip(14).iterate();
      EXPECT_EQ(drain(behind).size(), 26U);
      DatasetIterator batches = mapped.batch({.size = 4, .pad = true}).skip(4).iterate();
      EXPECT_EQ(flat(drain(batches)).front(), 16);
      DatasetIterator batches_between = mapped.batch({.size = 4, .pad = true}).shard(2, 0).iterate();
      EXPECT_EQ(drain(batches_between).size(), 5U);
      DatasetIterator met = mapped.shard(2, 1).iterate();
      EXPECT_THROW(drain(met), std::domain_error);
      // A position behind what was left out is one, too.
      DatasetIterator walk = mapped.shard(2, 0).iterate();
      for (int i = 0; i < 8; ++i) (void)walk.next();
      DatasetIterator taken_up = mapped.shard(2, 0).iterate(walk.position());
      EXPECT_EQ(ids_of(*taken_up.next())[0], 16);
      DatasetIterator beyond = mapped.skip(100).iterate();
      EXPECT_FALSE(beyond.next().has_value());
      EXPECT_FALSE(beyond.next().has_value());
    }
  }
}

TEST(DatasetErrors, TensorsThatHoldNoExamplesAreRefused) {
  EXPECT_THROW((void)Dataset::from(Example()), ArgumentError);
  Example scalar;
  scalar.insert_or_assign("x", HostTensor::scalar(1.0F));
  EXPECT_THROW((void)Dataset::from(std::move(scalar)), ShapeError);
  Example uneven;
  uneven.insert_or_assign("x", HostTensor(Dtype::f32, {3, 2}));
  uneven.insert_or_assign("y", HostTensor(Dtype::f32, {4}));
  EXPECT_NE(whole_error_text<ShapeError>([&] {
              (void)Dataset::from(std::move(uneven));
            }).find("'y' is f32[4] and has 4 examples, 'x' has 3"),
            std::string::npos);
  LabeledImages images;
  EXPECT_THROW((void)Dataset::from(images), ShapeError);
}

TEST(DatasetErrors, NoMoreIsMadeAheadThanIsAllowed) {
  const auto source = std::make_shared<NumberedSource>(1000);
  const Dataset dataset = Dataset::from(std::shared_ptr<const IndexedSource>(source));
  DatasetIterator by_count = dataset.prefetch({.batches = 3}).iterate();
  for (int taken = 1; taken < 20; ++taken) {
    (void)by_count.next();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_LE(source->made, taken + 3);
  }
  source->made = 0;
  // One that is larger than the bytes goes through alone.
  DatasetIterator by_bytes = dataset.prefetch({.batches = 100, .max_bytes = 1}).iterate();
  for (int taken = 1; taken < 20; ++taken) {
    (void)by_bytes.next();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_LE(source->made, taken + 1);
  }
  source->made = 0;
  DatasetIterator workers = dataset.map(scrambled, {.threads = 2, .max_bytes = 1}).iterate();
  for (int taken = 1; taken < 20; ++taken) {
    (void)workers.next();
    EXPECT_LE(source->made, taken + 8);
  }
}

TEST(DatasetErrors, AWalkThatIsDestroyedAmidEndlessSearchEnds) {
  const auto nothing = [](const Example&) { return false; };
  { const DatasetIterator not_begun = numbers(5).repeat().filter(nothing).prefetch().iterate(); }
  // One whose prefetch looks for ever, behind an example that was found.
  const auto first_only = [found = std::make_shared<std::atomic<bool>>(false)](const Example&) {
    return !found->exchange(true);
  };
  DatasetIterator iterator = numbers(5).repeat().filter(first_only).prefetch().iterate();
  EXPECT_TRUE(iterator.next().has_value());
}

TEST(DatasetErrors, PaddingBeyondAllMemoryIsNamed) {
  // 2^50 bytes twice: more than an address space has room for beside others.
  constexpr std::int64_t kLong = std::int64_t{1} << 25;
  const Dataset crossed = Dataset::generate("crossed", [](std::int64_t i) -> std::optional<Example> {
    if (i == 2) return std::nullopt;
    Example example;
    example.emplace("x", HostTensor(Dtype::u8, i == 0 ? Shape{1, kLong} : Shape{kLong, 1}));
    return example;
  });
  DatasetIterator iterator = crossed.batch({.size = 2, .pad = true}).iterate();
  const std::string text = whole_error_text<ShapeError>([&] { (void)iterator.next(); });
  EXPECT_NE(text.find("SF-E406"), std::string::npos) << text;
  EXPECT_NE(text.find("'x', with padding u8[2,33554432,33554432]"), std::string::npos) << text;
}

}  // namespace
}  // namespace sectionflow

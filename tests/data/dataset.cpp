#include "data/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "data/batch_loader.h"
#include "data/maps.h"
#include "data/permutation.h"
#include "data/synthetic.h"
#include "tests/support/data_examples.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

std::vector<std::int64_t> counted(std::int64_t size, std::int64_t first = 0) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), first);
  return all;
}

TEST(Dataset, DeliversItsSourceInOrderAndEnds) {
  for (const Dataset& dataset : {numbers(10), number_stream(10)}) {
    DatasetIterator iterator = dataset.iterate();
    EXPECT_EQ(flat(drain(iterator)), counted(10));
    EXPECT_FALSE(iterator.next().has_value());
    EXPECT_EQ(flat(drain(dataset)), counted(10)) << "a second walk";
  }
  EXPECT_EQ(drain(numbers(0)), Ids());
  EXPECT_EQ(drain(number_stream(0)), Ids());
  EXPECT_EQ(drain(numbers(0).batch({.size = 3}).prefetch()), Ids());
}

TEST(Dataset, ImagesComeInTheOrderOfBatchLoaderWithTheSameBits) {
  const LabeledImages images = synthetic_mnist({.train_size = 230}).train;
  BatchLoader loader(images, {.batch = 50, .seed = 9, .epochs = 3});
  const Dataset dataset = Dataset::from(images)
                              .shuffle({.seed = 9})
                              .map(maps::normalize(), {.threads = 3})
                              .batch({.size = 50})
                              .repeat(3)
                              .prefetch();
  EXPECT_EQ(dataset.size(), 15);
  DatasetIterator iterator = dataset.iterate();
  while (const auto batch = loader.next()) {
    const auto example = iterator.next();
    ASSERT_TRUE(example.has_value());
    EXPECT_TRUE(bitwise_equal(example->at("image"), batch->images));
    EXPECT_TRUE(bitwise_equal(example->at("label"), batch->labels));
    EXPECT_EQ(iterator.epoch(), batch->epoch);
  }
  EXPECT_FALSE(iterator.next().has_value());
}

TEST(Dataset, OutlivesTheImagesThatItWasMadeOf) {
  std::optional<Dataset> dataset;
  {
    const LabeledImages images = synthetic_mnist({.train_size = 3}).train;
    dataset = Dataset::from(images);
  }
  DatasetIterator iterator = dataset->iterate();
  dataset.reset();
  const auto example = iterator.next();
  EXPECT_EQ(example->at("image").type(), (TensorType{Dtype::u8, {28, 28, 1}}));
  EXPECT_EQ(example->at("label").type(), (TensorType{Dtype::i32, {}}));
}

TEST(Dataset, TensorsAreCutAlongTheirFirstAxis) {
  Example tensors;
  tensors.insert_or_assign("x", HostTensor::of<float>({3, 2}, {0, 1, 2, 3, 4, 5}));
  tensors.insert_or_assign("id", HostTensor::of<std::int64_t>({3}, {7, 8, 9}));
  DatasetIterator iterator = Dataset::from(std::move(tensors)).skip(1).iterate();
  const auto example = iterator.next();
  EXPECT_TRUE(bitwise_equal(example->at("x"), HostTensor::of<float>({2}, {2, 3})));
  EXPECT_EQ(example->at("id").item<std::int64_t>(), 8);
}

TEST(Dataset, GeneratorIsAskedByNumberUntilItGivesNothing) {
  const auto function = [](std::int64_t number) -> std::optional<Example> {
    if (number >= 5) return std::nullopt;
    return numbered_example(number);
  };
  EXPECT_EQ(flat(drain(Dataset::generate("five", function))), counted(5));
  EXPECT_EQ(flat(drain(Dataset::generate("five", function).repeat(2).skip(3).take(4))),
            (std::vector<std::int64_t>{3, 4, 0, 1}));
}

TEST(Dataset, OperationsAreDoneInTheOrderInWhichTheyAreWritten) {
  for (const Dataset& dataset : {numbers(10), number_stream(10)}) {
    EXPECT_EQ(flat(drain(dataset.take(6).skip(2))), counted(4, 2));
    EXPECT_EQ(flat(drain(dataset.skip(2).take(6))), counted(6, 2));
    EXPECT_EQ(flat(drain(dataset.shard(3, 1))), (std::vector<std::int64_t>{1, 4, 7}));
    EXPECT_EQ(flat(drain(dataset.shard(3, 0).shard(2, 1))), (std::vector<std::int64_t>{3, 9}));
    for (std::int64_t reader = 0; reader < 3; ++reader) {
      const std::vector<std::int64_t> dealt{reader, reader + 3, reader + 6};
      EXPECT_EQ(flat(drain(dataset.shard(3, reader, {.drop_remainder = true}))), dealt);
    }
    EXPECT_EQ(flat(drain(dataset.shard(1, 0, {.drop_remainder = true}))), flat(drain(dataset)));
    EXPECT_EQ(flat(drain(dataset.take(2).repeat(3))), (std::vector<std::int64_t>{0, 1, 0, 1, 0, 1}));
    EXPECT_EQ(flat(drain(dataset.repeat(3).take(12).skip(9))), (std::vector<std::int64_t>{9, 0, 1}));
    EXPECT_EQ(drain(dataset.batch({.size = 4, .pad = true}).repeat(2)).size(), 6U) << "batches of an epoch";
    EXPECT_EQ(drain(dataset.repeat(2).batch({.size = 4, .pad = true})).size(), 5U) << "batches across epochs";
    EXPECT_EQ(drain(dataset.batch({.size = 4, .drop_remainder = true, .pad = true})).size(), 2U);
    EXPECT_EQ(drain(dataset.batch({.size = 4, .pad = true}).skip(2)), (Ids{{8, 9}}));
    EXPECT_EQ(drain(dataset.repeat(0)), Ids());
    EXPECT_EQ(drain(dataset.take(0)), Ids());
    EXPECT_EQ(drain(dataset.skip(11)), Ids());
    EXPECT_EQ(flat(drain(dataset.filter([](const Example& e) { return ids_of(e)[0] % 4 == 1; }))),
              (std::vector<std::int64_t>{1, 5, 9}));
  }
}

TEST(Dataset, SizeIsKnownWhereItCanBe) {
  EXPECT_EQ(numbers(10).size(), 10);
  EXPECT_EQ(number_stream(10).size(), std::nullopt);
  EXPECT_EQ(numbers(10).batch({.size = 3}).size(), 4);
  EXPECT_EQ(numbers(10).batch({.size = 3, .drop_remainder = true}).size(), 3);
  EXPECT_EQ(numbers(10).shard(4, 1).size(), 3);
  EXPECT_EQ(numbers(10).shard(4, 2).size(), 2);
  EXPECT_EQ(numbers(10).shuffle().repeat(3).size(), 30);
  EXPECT_EQ(numbers(10).repeat().size(), kEndless);
  EXPECT_EQ(numbers(10).filter([](const Example&) { return true; }).repeat().size(), kEndless);
  EXPECT_EQ(numbers(10).repeat().take(7).size(), 7);
  EXPECT_EQ(numbers(10).filter([](const Example&) { return true; }).size(), std::nullopt);
  EXPECT_EQ(number_stream(10).take(0).size(), 0);
  EXPECT_EQ(numbers(10).skip(12).size(), 0);
}

TEST(Dataset, ShuffleByNumberIsAPermutationOfEachEpoch) {
  const Ids ids = drain(numbers(100).shuffle({.seed = 4}).repeat(2));
  ASSERT_EQ(ids.size(), 200U);
  for (std::size_t epoch = 0; epoch < 2; ++epoch) {
    const auto order = epoch_order(100, 4, static_cast<std::int64_t>(epoch));
    for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(ids[100 * epoch + i][0], order[i]);
  }
}

TEST(Dataset, ShuffleBehindARepeatMixesItsEpochs) {
  auto ids = flat(drain(numbers(50).shuffle({.seed = 1}).repeat(4).shuffle({.seed = 2})));
  std::vector<std::int64_t> first(ids.begin(), ids.begin() + 50);
  std::sort(first.begin(), first.end());
  EXPECT_NE(first, counted(50));
  std::sort(ids.begin(), ids.end());
  for (std::int64_t i = 0; i < 200; ++i) EXPECT_EQ(ids[static_cast<std::size_t>(i)], i / 4);
}

TEST(Dataset, ShuffleOfAStreamHoldsNoMoreThanItsBytes) {
  const auto source = std::make_shared<NumberedStream>(1000);
  // An example counts 320 bytes and what is in it: 9 to 13.
  const std::size_t bytes = 20 * 332;
  DatasetIterator iterator =
      Dataset::from(std::shared_ptr<const StreamSource>(source)).shuffle({.seed = 3, .buffer_bytes = bytes}).iterate();
  std::vector<std::int64_t> ids;
  while (const auto example = iterator.next()) {
    ids.push_back(ids_of(*example)[0]);
    EXPECT_LE(source->made, static_cast<std::int64_t>(ids.size()) + 20);
    EXPECT_GE(source->made, std::min<std::int64_t>(1000, static_cast<std::int64_t>(ids.size()) + 19));
  }
  EXPECT_FALSE(std::is_sorted(ids.begin(), ids.end()));
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(ids, counted(1000));
}

TEST(Dataset, ShuffleOfAStreamIsAnotherEachEpochAndTheSameForASeed) {
  const Dataset dataset = number_stream(60).shuffle({.seed = 3}).batch({.size = 60, .pad = true}).repeat(2);
  const Ids ids = drain(dataset);
  EXPECT_NE(ids[0], ids[1]);
  EXPECT_EQ(ids, drain(dataset));
  EXPECT_NE(ids, drain(number_stream(60).shuffle({.seed = 4}).batch({.size = 60, .pad = true}).repeat(2)));
}

TEST(Dataset, ABufferOfOneByteKeepsTheOrder) {
  EXPECT_EQ(flat(drain(number_stream(20).shuffle({.buffer_bytes = 1}))), counted(20));
}

TEST(Dataset, RandomWordsOfAMapFollowFromSeedPlaceEpochAndIndexAlone) {
  const auto ids = [](int threads, std::uint64_t seed) {
    return drain(numbers(50)
                     .map(scrambled, {.threads = threads, .seed = seed})
                     .shuffle({.seed = 1})
                     .repeat(2)
                     .filter([](const Example&) { return true; }));
  };
  EXPECT_EQ(ids(1, 5), ids(4, 5));
  EXPECT_NE(ids(1, 5), ids(1, 6));
  // By number, an example that comes at another place draws the same words, and others in another epoch.
  auto one = flat(drain(numbers(50).map(scrambled, {.seed = 5})));
  auto two = flat(drain(numbers(50).map(scrambled, {.seed = 5}).shuffle({.seed = 8})));
  std::sort(two.begin(), two.end());
  EXPECT_EQ(one, two);
  DatasetIterator second = numbers(50).map(scrambled, {.seed = 5}).iterate_epoch(1);
  EXPECT_NE(one, flat(drain(second)));
  // Two maps of one seed draw different words.
  const auto both = flat(drain(numbers(50)
                                   .map(scrambled, {.seed = 5})
                                   .map(
                                       [](Example example, const MapContext& c) {
                                         std::int64_t& id = example.at("id").values<std::int64_t>()[0];
                                         id = id % 1000 == c.below(1000, 0) ? 1 : 0;
                                         return example;
                                       },
                                       {.seed = 5})));
  EXPECT_LT(std::accumulate(both.begin(), both.end(), std::int64_t{0}), 5);
}

TEST(Dataset, AContextHasTheSameWordsOneByOneAndTogether) {
  const MapContext context(3, 4, 5, 6), neighbour(3, 4, 5, 7);
  std::vector<std::uint32_t> words(11);
  context.fill(words);
  for (std::uint64_t i = 0; i < 11; ++i) EXPECT_EQ(words[i], context.word(i));
  EXPECT_NE(context.word(0), neighbour.word(0));
  EXPECT_NE(context.word((1U << 26) - 1), neighbour.word(0));
  EXPECT_THROW((void)context.word(1U << 26), ArgumentError);
  EXPECT_THROW((void)context.below(0, 0), ArgumentError);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_LT(context.below(3, i), 3);
  EXPECT_EQ(context.below(1, 0), 0);
}

TEST(Dataset, BatchesArePaddedToTheLongestWithValues) {
  DatasetIterator iterator = numbers(7).skip(2).batch({.size = 3, .pad = true, .pad_values = {{"row", 255}}}).iterate();
  const auto batch = iterator.next();
  EXPECT_TRUE(bitwise_equal(batch->at("row"), HostTensor::of<std::uint8_t>({3, 5}, {2, 2, 2, 255, 255,  //
                                                                                    3, 3, 3, 3, 255,    //
                                                                                    4, 4, 4, 4, 4})));
  EXPECT_TRUE(bitwise_equal(batch->at("id"), HostTensor::of<std::int64_t>({3}, {2, 3, 4})));
  const auto second = iterator.next();
  EXPECT_TRUE(bitwise_equal(second->at("row"), HostTensor::of<std::uint8_t>({2, 2}, {5, 255, 6, 6})));
}

TEST(Dataset, PaddingGoesAlongEveryAxis) {
  const auto function = [](std::int64_t number) -> std::optional<Example> {
    Example example;
    if (number == 0) example.insert_or_assign("x", HostTensor::of<float>({1, 3}, {1, 2, 3}));
    if (number == 1) example.insert_or_assign("x", HostTensor::of<float>({2, 1}, {4, 5}));
    if (number == 2) return std::nullopt;
    return example;
  };
  DatasetIterator iterator =
      Dataset::generate("two", function).batch({.pad = true, .pad_values = {{"x", -1}}}).iterate();
  EXPECT_TRUE(bitwise_equal(iterator.next()->at("x"),
                            HostTensor::of<float>({2, 2, 3}, {1, 2, 3, -1, -1, -1, 4, -1, -1, 5, -1, -1})));
}

TEST(Dataset, PaddingTakesNoMoreThanItMay) {
  // Rows of a byte each, but for one that makes all others as long.
  const auto rows = [](std::int64_t giant) {
    return Dataset::generate("rows", [giant](std::int64_t id) -> std::optional<Example> {
      if (id == 10) return std::nullopt;
      Example example;
      example.emplace("row", HostTensor(Dtype::u8, {id == 7 ? giant : 1}));
      return example;
    });
  };
  const auto refusal = [](const Dataset& dataset) {
    DatasetIterator iterator = dataset.iterate();
    EXPECT_EQ(iterator.next()->at("row").shape(), (Shape{5, 1}));
    return whole_error_text<ShapeError>([&] { iterator.next(); });
  };
  const std::string text = refusal(rows(1001).batch({.size = 5, .pad = true, .max_padded_bytes = 5000}));
  for (const char* part : {"SF-E406", "'row', with padding u8[5,1001]", "max_padded_bytes is", "bucket examples"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  DatasetIterator most = rows(1000).batch({.size = 5, .pad = true, .max_padded_bytes = 5000}).iterate();
  (void)most.next();
  EXPECT_EQ(most.next()->at("row").shape(), (Shape{5, 1000}));
  // What is of one size is as large as it is asked for, and a limit tells no pipeline from another.
  EXPECT_EQ(drain(numbers(4).batch({.size = 1, .pad = true, .max_padded_bytes = 1})).size(), 4U);
  EXPECT_NO_THROW((void)numbers(4)
                      .batch({.pad = true})
                      .iterate(numbers(4).batch({.pad = true, .max_padded_bytes = 7}).iterate().position()));
  EXPECT_THROW((void)numbers(4).batch({.max_padded_bytes = 0}), ArgumentError);
}

TEST(Dataset, BucketsBringTogetherWhatIsOfOneLength) {
  // Lengths 1 to 5: below 2, below 4, from 4 on.
  const Dataset dataset = numbers(20).batch({.size = 3, .pad = true, .bucket_boundaries = {2, 4}, .bucket_by = "row"});
  const Ids ids = drain(dataset);
  EXPECT_EQ(ids, (Ids{{1, 2, 6}, {3, 4, 8}, {0, 5, 10}, {7, 11, 12}, {9, 13, 14}, {15}, {16, 17}, {18, 19}}));
  const Dataset dropped = numbers(20).batch(
      {.size = 3, .drop_remainder = true, .pad = true, .bucket_boundaries = {2, 4}, .bucket_by = "row"});
  EXPECT_EQ(drain(dropped).size(), 5U);
}

TEST(Dataset, StatisticsCountWhatWasDelivered) {
  DatasetIterator iterator = numbers(10).batch({.size = 4, .pad = true}).prefetch().iterate();
  EXPECT_EQ(iterator.statistics().batches, 0);
  while (iterator.next()) {
  }
  const DatasetStatistics statistics = iterator.statistics();
  EXPECT_EQ(statistics.examples, 10);
  EXPECT_EQ(statistics.batches, 3);
  EXPECT_EQ(statistics.bytes, 10 * 8 + 4 * 4 + 4 * 5 + 2 * 5);
  EXPECT_GT(statistics.seconds_waited, 0);
  EXPECT_EQ(statistics.skipped_records, 0);
}

TEST(Dataset, EpochIsThatOfTheOutermostRepeat) {
  const auto epochs = [](const Dataset& dataset) {
    DatasetIterator iterator = dataset.iterate();
    std::vector<std::int64_t> epochs;
    while (iterator.next()) epochs.push_back(iterator.epoch());
    return epochs;
  };
  const std::vector<std::int64_t> wanted = {0, 0, 0, 0, 1, 1, 1, 1};
  EXPECT_EQ(epochs(numbers(2).repeat(2).repeat(2)), wanted);
  EXPECT_EQ(epochs(number_stream(2).repeat(2).repeat(2)), wanted);
  EXPECT_EQ(epochs(numbers(4).repeat(2).batch({.size = 1}).prefetch()), wanted);
  EXPECT_EQ(epochs(numbers(4).map(scrambled, {.threads = 2}).batch({.size = 1}).repeat(2)), wanted);
  DatasetIterator third = numbers(4).iterate_epoch(3);
  (void)third.next();
  EXPECT_EQ(third.epoch(), 3);
}

TEST(Dataset, AnEpochByItselfIsThatOfARepeat) {
  for (const Dataset& one : {numbers(30).shuffle({.seed = 2}).map(scrambled).batch({.size = 7, .pad = true}),
                             number_stream(30).shuffle({.seed = 2}).map(scrambled).batch({.size = 7, .pad = true})}) {
    Ids ids;
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      DatasetIterator iterator = one.iterate_epoch(epoch);
      for (auto& batch : drain(iterator)) ids.push_back(std::move(batch));
    }
    EXPECT_EQ(ids, drain(one.repeat(3)));
  }
}

TEST(Dataset, TextSaysWhatIsDone) {
  const Dataset dataset = numbers(10)
                              .shuffle({.seed = 1})
                              .map(maps::random_flip(), {.threads = 4, .seed = 2})
                              .batch({.size = 5, .drop_remainder = true})
                              .repeat()
                              .on_error(ErrorPolicy::skip_record)
                              .prefetch({.batches = 3, .max_bytes = 1_MiB});
  EXPECT_EQ(dataset.text(),
            "numbers: 10 examples\nshuffle(seed 1)\nmap(random_flip image with 0.5, seed 2, 4 threads)\n"
            "batch(size 5, drop_remainder)\nrepeat(for ever)\non_error(skip_record)\n"
            "prefetch(3 batches, 1.00 MiB)\n");
  EXPECT_EQ(number_stream(3)
                .shuffle({.buffer_bytes = 100})
                .take(2)
                .skip(1)
                .filter([](const Example&) { return true; }, "all")
                .text(),
            "stream of numbers\nshuffle(seed 0, buffer of 100 bytes)\ntake(2)\nskip(1)\nfilter(all)\n");
}

}  // namespace
}  // namespace sectionflow

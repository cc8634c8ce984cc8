#include "data/batch_loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

/// Image i has the level i everywhere and the label i.
LabeledImages numbered_dataset(int num_images) {
  LabeledImages dataset;
  dataset.images = HostTensor(Dtype::u8, {num_images, 2, 3, 1});
  dataset.labels = HostTensor(Dtype::i32, {num_images});
  dataset.num_classes = num_images;
  dataset.name = "numbered";
  for (int i = 0; i < num_images; ++i) {
    const auto image = dataset.images.values<std::uint8_t>().subspan(static_cast<std::size_t>(i) * 6, 6);
    std::fill(image.begin(), image.end(), static_cast<std::uint8_t>(i));
    dataset.labels.values<std::int32_t>()[static_cast<std::size_t>(i)] = i;
  }
  return dataset;
}

std::vector<Batch> all_batches(const LabeledImages& dataset, const BatchLoaderOptions& options) {
  BatchLoader loader(dataset, options);
  std::vector<Batch> batches;
  while (auto batch = loader.next()) batches.push_back(std::move(*batch));
  EXPECT_FALSE(loader.next().has_value()) << "the end is not the end";
  return batches;
}

std::vector<int> labels_of(const std::vector<Batch>& batches, std::int64_t epoch) {
  std::vector<int> labels;
  for (const Batch& batch : batches) {
    if (batch.epoch != epoch) continue;
    for (std::int32_t label : batch.labels.values<std::int32_t>()) labels.push_back(label);
  }
  return labels;
}

void expect_same_batches(const std::vector<Batch>& a, const std::vector<Batch>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].epoch, b[i].epoch);
    EXPECT_EQ(a[i].index_in_epoch, b[i].index_in_epoch);
    EXPECT_TRUE(bitwise_equal(a[i].images, b[i].images)) << "batch " << i;
    EXPECT_TRUE(bitwise_equal(a[i].labels, b[i].labels)) << "batch " << i;
  }
}

TEST(BatchLoader, ImagesAreLevelsDividedBy255AndStayWithTheirLabels) {
  const LabeledImages dataset = numbered_dataset(256);
  for (const Batch& batch : all_batches(dataset, {.batch = 50, .seed = 3})) {
    ASSERT_EQ(batch.images.type(), (TensorType{Dtype::f32, {batch.labels.num_elements(), 2, 3, 1}}));
    for (std::size_t i = 0; i < batch.images.values<float>().size(); ++i) {
      const auto label = static_cast<float>(batch.labels.values<std::int32_t>()[i / 6]);
      ASSERT_EQ(batch.images.values<float>()[i], label / 255.0F);
    }
  }
}

TEST(BatchLoader, EveryEpochHasEveryImageOnceInItsOwnOrder) {
  const LabeledImages dataset = numbered_dataset(100);
  const auto batches = all_batches(dataset, {.batch = 30, .seed = 7, .epochs = 2});
  ASSERT_EQ(batches.size(), 8U);
  EXPECT_EQ(batches[3].labels.num_elements(), 10);
  EXPECT_EQ(batches[4].epoch, 1);
  EXPECT_EQ(batches[4].index_in_epoch, 0);
  std::vector<int> first = labels_of(batches, 0), second = labels_of(batches, 1);
  EXPECT_NE(first, second);
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  std::vector<int> all(100);
  for (int i = 0; i < 100; ++i) all[static_cast<std::size_t>(i)] = i;
  EXPECT_EQ(first, all);
  EXPECT_EQ(second, all);
}

TEST(BatchLoader, WithoutShuffleTheOrderIsThatOfTheDataSet) {
  const LabeledImages dataset = numbered_dataset(10);
  const auto batches = all_batches(dataset, {.batch = 4, .shuffle = false});
  EXPECT_EQ(labels_of(batches, 0), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(BatchLoader, DroppedRemainderLeavesFullBatchesOnly) {
  const LabeledImages dataset = numbered_dataset(10);
  const auto batches = all_batches(dataset, {.batch = 4, .drop_remainder = true, .epochs = 2});
  ASSERT_EQ(batches.size(), 4U);
  for (const Batch& batch : batches) EXPECT_EQ(batch.labels.num_elements(), 4);
}

TEST(BatchLoader, PrefetchDoesNotChangeTheBatches) {
  const LabeledImages dataset = numbered_dataset(101);
  const auto without = all_batches(dataset, {.batch = 8, .seed = 5, .epochs = 3, .prefetch = 0});
  for (int prefetch : {1, 2, 3, 1000}) {
    SCOPED_TRACE(prefetch);
    expect_same_batches(without, all_batches(dataset, {.batch = 8, .seed = 5, .epochs = 3, .prefetch = prefetch}));
  }
}

TEST(BatchLoader, SeedDecidesTheOrder) {
  const LabeledImages dataset = numbered_dataset(100);
  const auto order = [&](std::uint64_t seed) {
    return labels_of(all_batches(dataset, {.batch = 100, .seed = seed}), 0);
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

TEST(BatchLoader, ShuffleSendsEachImageToEachPlaceEquallyOften) {
  constexpr int kImages = 5, kEpochs = 5000;
  const LabeledImages dataset = numbered_dataset(kImages);
  const auto batches = all_batches(dataset, {.batch = kImages, .seed = 11, .epochs = kEpochs, .prefetch = 0});
  std::vector<int> counts(kImages * kImages);
  for (const Batch& batch : batches) {
    for (std::size_t i = 0; i < kImages; ++i) {
      ++counts[i * kImages + static_cast<std::size_t>(batch.labels.values<std::int32_t>()[i])];
    }
  }
  // 1000 expected, standard deviation 28: five of them.
  for (int count : counts) EXPECT_NEAR(count, kEpochs / kImages, 141);
}

TEST(BatchLoader, ResumedRunGetsTheRemainingBatches) {
  const LabeledImages dataset = numbered_dataset(50);
  const auto whole = all_batches(dataset, {.batch = 8, .seed = 5, .epochs = 3});  // 7 batches an epoch
  for (int done : {0, 1, 6, 7, 10, 20, 21}) {
    SCOPED_TRACE(done);
    const auto rest =
        all_batches(dataset, {.batch = 8, .seed = 5, .epochs = 3, .first_epoch = done / 7, .first_batch = done % 7});
    ASSERT_EQ(rest.size(), whole.size() - static_cast<std::size_t>(done));
    for (std::size_t i = 0; i < rest.size(); ++i) EXPECT_TRUE(bitwise_equal(rest[i].images, whole[i + done].images));
  }
  const auto after_the_last = all_batches(dataset, {.batch = 8, .epochs = 3, .first_epoch = 1, .first_batch = 7});
  ASSERT_EQ(after_the_last.size(), 7U);
  EXPECT_EQ(after_the_last[0].epoch, 2);
}

TEST(BatchLoader, EndlessLoaderGoesOn) {
  const LabeledImages dataset = numbered_dataset(4);
  BatchLoader loader(dataset, {.batch = 4, .epochs = kEndless});
  for (int epoch = 0; epoch < 100; ++epoch) ASSERT_EQ(loader.next()->epoch, epoch);
}

TEST(BatchLoader, NoMoreThanPrefetchBatchesAreMadeAhead) {
  const LabeledImages dataset = numbered_dataset(100);
  std::atomic<int> made = 0;
  BatchLoader loader(dataset, {.batch = 1, .transform = [&](Batch&) { ++made; }, .prefetch = 3});
  for (int taken = 0; taken < 10; ++taken) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_LE(made, taken + 3);
    loader.next();
  }
}

TEST(BatchLoader, DestroyingWhilePrefetchingIsSafe) {
  const LabeledImages dataset = numbered_dataset(200);
  for (int round = 0; round < 300; ++round) {
    BatchLoader loader(dataset, {.batch = 7, .seed = 1, .epochs = kEndless, .prefetch = 1 + round % 4});
    for (int taken = 0; taken < round % 5; ++taken) ASSERT_TRUE(loader.next().has_value());
  }
}

TEST(BatchLoader, ErrorOnTheThreadIsThrownByNextAfterTheBatchesBeforeIt) {
  const LabeledImages dataset = numbered_dataset(100);
  for (int prefetch : {0, 1, 4}) {
    SCOPED_TRACE(prefetch);
    const auto fail_at_3 = [](Batch& batch) {
      if (batch.index_in_epoch == 3) throw std::domain_error("batch 3");
    };
    BatchLoader loader(dataset, {.batch = 10, .transform = fail_at_3, .prefetch = prefetch});
    for (int i = 0; i < 3; ++i) EXPECT_EQ(loader.next()->index_in_epoch, i);
    for (int call = 0; call < 2; ++call) {
      EXPECT_EQ(error_text<std::domain_error>([&] { loader.next(); }), "batch 3");
    }
  }
}

TEST(BatchLoader, TransformMayReplaceTheImages) {
  const LabeledImages dataset = numbered_dataset(10);
  const auto shrink = [](Batch& batch) {
    batch.images = HostTensor(Dtype::f32, {batch.labels.num_elements(), 1, 1, 1});
  };
  for (const Batch& batch : all_batches(dataset, {.batch = 4, .transform = shrink}))
    EXPECT_EQ(batch.images.shape()[1], 1);
}

TEST(BatchLoader, OptionsOutsideTheirRangeAreRefused) {
  const LabeledImages dataset = numbered_dataset(10);
  const auto make = [&](const BatchLoaderOptions& options) { BatchLoader loader(dataset, options); };
  EXPECT_THROW(make({.batch = 0}), ArgumentError);
  EXPECT_THROW(make({.epochs = -2}), ArgumentError);
  EXPECT_THROW(make({.first_epoch = -1}), ArgumentError);
  EXPECT_THROW(make({.first_batch = 2}), ArgumentError);
  EXPECT_THROW(make({.prefetch = -1}), ArgumentError);
  EXPECT_NE(error_text<ArgumentError>([&] { make({.batch = 11, .drop_remainder = true}); }).find("has no batch of 11"),
            std::string::npos);
}

TEST(BatchLoader, DataSetOfAnotherFormIsRefused) {
  const auto make = [](const LabeledImages& dataset) { BatchLoader loader(dataset, {}); };
  EXPECT_THROW(make(LabeledImages{}), ShapeError);
  LabeledImages dataset = numbered_dataset(10);
  dataset.num_classes = 9;
  EXPECT_NE(error_text<ArgumentError>([&] { make(dataset); }).find("the label 9 but 9 classes"), std::string::npos);
  dataset.labels = HostTensor(Dtype::i32, {9});
  EXPECT_THROW(make(dataset), ShapeError);
  EXPECT_THROW(make(numbered_dataset(0)), ArgumentError);
}

}  // namespace
}  // namespace sectionflow

// Batches in memory that somebody lends: the same bytes, and all of it comes back.

#include "tests/support/batch_memory.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <optional>
#include <stdexcept>

#include "data/batch_loader.h"
#include "data/dataset.h"
#include "data/synthetic.h"
#include "tests/support/data_examples.h"

namespace sectionflow {
namespace {

using testing_support::CountedMemory;

/// What differs in what two walks give; the second is lent `memory`. Empty when nothing does.
std::string difference_when_lent(const Dataset& data, const std::shared_ptr<BatchMemory>& memory) {
  DatasetIterator expected = data.iterate(), lent = data.iterate();
  lent.lend(memory);
  for (int call = 0;; ++call) {
    const auto a = expected.next(), b = lent.next();
    if (a.has_value() != b.has_value()) return text_of("call ", call, ": the end");
    if (!a) return expected.position() == lent.position() ? "" : "the position";
    if (!same_example(*a, *b)) return text_of("call ", call, ": the bytes");
  }
}

TEST(BatchMemory, HoldsTheSameBatchesPaddedOrNot) {
  // Rows of numbered examples are 1 to 5 long.
  const BatchOptions ways[] = {{.size = 4, .pad = true},
                               {.size = 4, .pad = true, .pad_values = {{"row", 7.0}}},
                               {.size = 3, .pad = true, .bucket_boundaries = {3, 5}, .bucket_by = "row"}};
  for (const BatchOptions& way : ways) {
    for (const int refuses : {0, 1, 3}) {
      const auto memory = std::make_shared<CountedMemory>(refuses);
      for (const bool prefetches : {false, true}) {
        const Dataset batches = numbers(22).shuffle({.seed = 2}).batch(way).repeat(2);
        EXPECT_EQ(difference_when_lent(prefetches ? batches.prefetch() : batches, memory), "") << refuses;
      }
      EXPECT_GT(memory->calls(), 20);
      EXPECT_EQ(memory->out(), 0) << "every batch has ended";
    }
  }
}

TEST(BatchMemory, OfItsOwnIsPaddedWithZerosWhateverLayThere) {
  mallopt(M_PERTURB, 0x55);
  DatasetIterator iterator = numbers(7).batch({.size = 7, .pad = true}).iterate();
  const auto batch = iterator.next();
  mallopt(M_PERTURB, 0);
  ASSERT_TRUE(batch.has_value());
  const HostTensor& rows = batch->at("row");
  const std::int64_t width = rows.shape()[1];
  std::int64_t zeros = 0;
  for (std::int64_t i = 0; i < 7; ++i) {
    const std::int64_t length = numbered_example(i).at("row").shape()[0];
    for (std::int64_t at = length; at < width; ++at, ++zeros) {
      EXPECT_EQ(rows.values<std::uint8_t>()[static_cast<std::size_t>(i * width + at)], 0) << i << " " << at;
    }
  }
  EXPECT_GT(zeros, 5);
}

TEST(BatchMemory, IsAskedForDeliveredBatchesAlone) {
  const auto memory = std::make_shared<CountedMemory>();
  const Dataset batches = numbers(20).batch({.size = 5, .pad = true});
  EXPECT_EQ(difference_when_lent(batches.shuffle({.seed = 1, .buffer_bytes = 10000}), memory), "");
  EXPECT_EQ(memory->calls(), 0) << "a shuffle holds them";
  EXPECT_EQ(difference_when_lent(numbers(20), memory), "");
  EXPECT_EQ(memory->calls(), 0) << "there are no batches";
  EXPECT_EQ(difference_when_lent(batches, memory), "");
  EXPECT_EQ(memory->calls(), 4 * 2) << "four batches of two tensors";
}

TEST(BatchMemory, ComesBackWhereBatchesOutliveTheWalkAndWhereItIsBrokenOff) {
  const auto memory = std::make_shared<CountedMemory>();
  std::optional<Example> kept;
  {
    DatasetIterator iterator = numbers(40).batch({.size = 4, .pad = true}).prefetch({.batches = 3}).iterate();
    iterator.lend(memory);
    (void)iterator.next();
    kept = iterator.next();
  }
  EXPECT_EQ(memory->out(), 2) << "what was made ahead has gone";
  EXPECT_EQ(kept->at("id").values<std::int64_t>()[0], 4);
  const HostTensor copy = kept->at("id").clone();
  kept.reset();
  EXPECT_EQ(memory->out(), 0);
  EXPECT_EQ(copy.values<std::int64_t>()[3], 7);
}

TEST(BatchMemory, ComesBackWhereAMapThrows) {
  const auto memory = std::make_shared<CountedMemory>();
  const auto fails = [](Example batch) {
    if (batch.at("id").values<std::int64_t>()[0] == 12) throw std::domain_error("bad");
    return batch;
  };
  for (const bool prefetches : {false, true}) {
    const Dataset mapped = numbers(40).batch({.size = 4, .pad = true}).map({fails, "fails"}, {.threads = 3});
    DatasetIterator iterator = (prefetches ? mapped.prefetch() : mapped).iterate();
    iterator.lend(memory);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(iterator.next().has_value());
    EXPECT_THROW(iterator.next(), std::domain_error);
  }
  EXPECT_EQ(memory->out(), 0);
}

TEST(BatchMemory, ThatThrowsIsTheErrorOfTheCall) {
  struct Failing final : BatchMemory {
    std::shared_ptr<std::byte[]> allocate(std::size_t, std::size_t) override { throw DeviceError("no memory today"); }
  };
  for (const bool prefetches : {false, true}) {
    const Dataset batches = numbers(8).batch({.size = 4, .pad = true});
    DatasetIterator iterator = (prefetches ? batches.prefetch() : batches).iterate();
    iterator.lend(std::make_shared<Failing>());
    EXPECT_THROW(iterator.next(), DeviceError);
  }
}

TEST(BatchMemory, IsGivenUpForMemoryOfTheirOwn) {
  const auto memory = std::make_shared<CountedMemory>();
  DatasetIterator iterator = numbers(40).batch({.size = 4, .pad = true}).iterate();
  iterator.lend(memory);
  (void)iterator.next();
  iterator.lend(nullptr);
  EXPECT_EQ(memory.use_count(), 1) << "nobody keeps it";
  (void)iterator.next();
  EXPECT_EQ(memory->calls(), 2);
}

TEST(BatchMemory, HoldsTheBatchesOfALoader) {
  const LabeledImages images = synthetic_mnist({.train_size = 50, .test_size = 10}).train;
  for (const int prefetch : {0, 2}) {
    const auto memory = std::make_shared<CountedMemory>(5);
    {
      const BatchLoaderOptions options{.batch = 8, .seed = 4, .epochs = 2, .prefetch = prefetch};
      BatchLoader expected(images, options), lent(images, options);
      lent.lend(memory);
      while (const auto batch = expected.next()) {
        const auto same = lent.next();
        ASSERT_TRUE(same.has_value());
        EXPECT_TRUE(bitwise_equal(same->images, batch->images));
        EXPECT_TRUE(bitwise_equal(same->labels, batch->labels));
      }
      EXPECT_FALSE(lent.next().has_value());
    }
    EXPECT_GT(memory->calls(), 10);
    EXPECT_EQ(memory->out(), 0);
  }
}

}  // namespace
}  // namespace sectionflow

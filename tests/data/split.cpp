// Dataset::split: a share of the examples that is kept apart.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "data/permutation.h"
#include "tests/support/contains.h"
#include "tests/support/data_examples.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing_support::contains;

std::vector<std::int64_t> sorted(std::vector<std::int64_t> ids) {
  std::sort(ids.begin(), ids.end());
  return ids;
}

TEST(Split, EveryExampleIsInOnePartAndPartsKeepTheirOrder) {
  for (const std::int64_t size : {2, 3, 10, 57, 1000}) {
    for (const double share : {0.001, 0.1, 0.5, 0.999}) {
      const SplitDataset parts = numbers(size).split({.validation = share, .seed = 3});
      const auto train = flat(drain(parts.train)), validation = flat(drain(parts.validation));
      const auto held = std::clamp<std::int64_t>(std::llround(share * static_cast<double>(size)), 1, size - 1);
      EXPECT_EQ(parts.validation.size(), held) << size << ' ' << share;
      EXPECT_EQ(static_cast<std::int64_t>(validation.size()), held);
      EXPECT_EQ(static_cast<std::int64_t>(train.size()), size - held);
      EXPECT_TRUE(std::is_sorted(train.begin(), train.end()));
      EXPECT_TRUE(std::is_sorted(validation.begin(), validation.end()));
      std::set<std::int64_t> all(train.begin(), train.end());
      all.insert(validation.begin(), validation.end());
      EXPECT_EQ(static_cast<std::int64_t>(all.size()), size) << size << ' ' << share;
    }
  }
}

TEST(Split, WhichExamplesAreKeptApartFollowsFromTheSeed) {
  const auto held = [](std::uint64_t seed) { return flat(drain(numbers(200).split({.seed = seed}).validation)); };
  EXPECT_EQ(held(1), held(1));
  EXPECT_NE(held(1), held(2));
  // What lies class by class is kept apart of all classes.
  const auto some = held(1);
  EXPECT_LT(some.front(), 60);
  EXPECT_GT(some.back(), 140);
  auto order = epoch_order(200, 1, 0);
  order.resize(some.size());
  EXPECT_NE(some, sorted({order.begin(), order.end()})) << "a shuffle of the same seed draws other numbers";
}

TEST(Split, PartsAreTheSameWithAnyNumberOfThreadsAndInEveryEpoch) {
  const SplitDataset parts = numbers(50).split({.validation = 0.2, .seed = 7});
  const auto train = flat(drain(parts.train));
  for (const int threads : {1, 2, 5}) {
    const Dataset walked = parts.train.shuffle({.seed = 1}).map(scrambled, {.threads = threads}).repeat(2);
    const auto ids = flat(drain(walked));
    EXPECT_EQ(ids, flat(drain(parts.train.shuffle({.seed = 1}).map(scrambled).repeat(2)))) << threads;
    for (std::size_t epoch = 0; epoch < 2; ++epoch) {
      std::vector<std::int64_t> seen;
      for (std::size_t i = 0; i < train.size(); ++i) seen.push_back(ids[epoch * train.size() + i] / 1000);
      EXPECT_EQ(sorted(seen), train) << threads;
    }
  }
}

TEST(Split, GoesOnWhereItWasBrokenOffAndNowhereElse) {
  const SplitDataset parts = numbers(40).split({.validation = 0.25, .seed = 5});
  const Dataset batches = parts.train.shuffle({.seed = 2}).batch({.size = 4, .pad = true});
  DatasetIterator whole = batches.iterate(), begun = batches.iterate();
  for (int i = 0; i < 3; ++i) {
    whole.next();
    begun.next();
  }
  DatasetIterator rest = batches.iterate(begun.position());
  EXPECT_EQ(drain(rest), drain(whole));
  const std::string position = begun.position();
  const auto of = [](const Dataset& part) { return part.shuffle({.seed = 2}).batch({.size = 4, .pad = true}); };
  const SplitDataset other = numbers(40).split({.validation = 0.25, .seed = 6});
  for (const Dataset& another : {of(parts.validation), of(other.train)}) {
    const std::string text = whole_error_text<ArgumentError>([&] { another.iterate(position); });
    EXPECT_TRUE(contains(text, "SF-E403")) << text;
    EXPECT_TRUE(contains(text, "split(")) << text;
  }
}

TEST(Split, BehindWhatChoosesByNumberItSplitsWhatIsLeft) {
  const SplitDataset parts = numbers(30).skip(10).shard(2, 1).split({.validation = 0.3});
  auto all = flat(drain(parts.train));
  for (const std::int64_t id : flat(drain(parts.validation))) all.push_back(id);
  EXPECT_EQ(sorted(all), flat(drain(numbers(30).skip(10).shard(2, 1))));
  EXPECT_EQ(flat(drain(parts.train.skip(2).take(3))).size(), 3U);
  const SplitDataset nested = parts.train.split({.validation = 0.5});
  EXPECT_EQ(*nested.train.size() + *nested.validation.size(), *parts.train.size());
}

TEST(Split, DamagedExamplesAreLeftOutOfTheirPart) {
  const SplitDataset parts = numbers(20, {4, 9}).on_error(ErrorPolicy::skip_record).split({.validation = 0.5});
  EXPECT_EQ(flat(drain(parts.train)).size() + flat(drain(parts.validation)).size(), 18U);
}

TEST(Split, WhatCannotBeSplitIsRefused) {
  for (const double share : {0.0, 1.0, -0.5, 2.0, std::nan("")}) {
    EXPECT_TRUE(
        contains(error_text<ArgumentError>([&] { numbers(9).split({.validation = share}); }), "wanted a share"));
  }
  EXPECT_TRUE(contains(error_text<ArgumentError>([] { numbers(1).split(); }), "wanted 2 at least"));
  EXPECT_TRUE(contains(error_text<ArgumentError>([] { number_stream(9).split(); }), "by number"));
  EXPECT_TRUE(contains(error_text<ArgumentError>([] { numbers(9).batch().split(); }), "by number"));
  EXPECT_TRUE(contains(error_text<ArgumentError>([] { numbers(9).shuffle().take(5).split(); }), "behind a shuffle"));
  EXPECT_TRUE(contains(error_text<ArgumentError>([] { numbers(9).repeat(2).split(); }), "behind a repeat"));
}

}  // namespace
}  // namespace sectionflow

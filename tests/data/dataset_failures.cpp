// What throws, whatever has looked ahead: what is delivered, the error behind it and the place are those of a walk
// without any thread.

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

#include "data/dataset.h"
#include "tests/support/data_examples.h"
#include "tests/support/watchdog.h"

namespace sectionflow {
namespace {

/// Threads of every map of a pipeline; 0: one, and nothing is prefetched.
constexpr int kThreads[] = {0, 1, 2, 4};

Dataset with_threads(const Dataset& dataset, MapFunction function, int threads) {
  const Dataset mapped = dataset.map(std::move(function), {.threads = std::max(threads, 1), .max_bytes = 2000});
  return threads > 0 ? mapped.prefetch({.batches = 1 + threads}) : mapped;
}

Example same(Example example) {
  return example;
}
/// Throws for examples of these ids, and for batches of them.
MapFunction throwing_at(std::set<std::int64_t> ids, bool is_damage) {
  return [ids = std::move(ids), is_damage](Example example) {
    for (std::int64_t id : ids_of(example)) {
      if (!ids.contains(id)) continue;
      if (is_damage) throw DataError(text_of("no picture: ", id));
      throw std::domain_error(text_of("bad: ", id));
    }
    return example;
  };
}

struct Outcome {
  Ids ids;
  std::string error;
  std::int64_t num_skipped = 0;
  std::string position = {};
  /// A position may also tell of damage that has been seen ahead: it is compared by what comes behind it.
  bool operator==(const Outcome& other) const {
    return ids == other.ids && error == other.error && num_skipped == other.num_skipped;
  }
};
void PrintTo(const Outcome& outcome, std::ostream* out) {
  *out << ::testing::PrintToString(outcome.ids) << " then '" << outcome.error << "', " << outcome.num_skipped
       << " left out, at " << outcome.position;
}

Outcome outcome_of(const Dataset& dataset, const std::string& position = "") {
  DatasetIterator iterator = dataset.iterate(position);
  Outcome outcome;
  try {
    while (const auto example = iterator.next()) outcome.ids.push_back(ids_of(*example));
    outcome.num_skipped = iterator.statistics().skipped_records;
  } catch (const std::exception& error) {
    // What has been counted ahead of it is no part of the outcome.
    outcome.error = error.what();
  }
  outcome.position = iterator.position();
  return outcome;
}

TEST(DatasetFailures, WhatASecondMapHasReadAheadIsNotMadeWhereItIsSkipped) {
  for (int threads : kThreads) {
    SCOPED_TRACE(threads);
    const Dataset thrown =
        with_threads(with_threads(number_stream(40), throwing_at({13}, false), threads), same, threads);
    const Dataset damaged = with_threads(number_stream(40, {13}), same, threads);
    for (const Dataset& dataset : {thrown, damaged}) {
      EXPECT_EQ(drain(dataset.shard(2, 0)).size(), 20U);
      EXPECT_EQ(drain(dataset.skip(14)).size(), 26U);
      EXPECT_EQ(drain(dataset.batch({.size = 4, .pad = true}).shard(2, 0)).size(), 5U);
      const Outcome met = outcome_of(dataset.shard(2, 1));
      EXPECT_EQ(met.ids.size(), 6U);
      EXPECT_NE(met.error.find("13"), std::string::npos) << met.error;
    }
  }
}

TEST(DatasetFailures, ABatchThatIsSkippedIsNotMadeBelowAMap) {
  for (int threads : kThreads) {
    SCOPED_TRACE(threads);
    const Dataset batches =
        with_threads(number_stream(40, {13}), throwing_at({22}, false), threads).batch({.size = 4, .pad = true});
    const Outcome outcome = outcome_of(with_threads(batches, same, threads).shard(2, 0));
    EXPECT_EQ(outcome.ids, (Ids{{0, 1, 2, 3}, {8, 9, 10, 11}, {16, 17, 18, 19}, {24, 25, 26, 27}, {32, 33, 34, 35}}));
    EXPECT_EQ(outcome.error, "");
  }
}

TEST(DatasetFailures, WhatIsReadAgainBehindAnErrorIsCountedOnce) {
  for (int threads : kThreads) {
    SCOPED_TRACE(threads);
    // Left out are records 11 and 12, just before the one that throws and is skipped.
    const Dataset read =
        with_threads(number_stream(40, {11}), throwing_at({12, 30}, true), threads).on_error(ErrorPolicy::skip_record);
    const Dataset dataset = with_threads(with_threads(read, throwing_at({13}, false), threads), same, threads);
    const Outcome outcome = outcome_of(dataset.skip(12));
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.ids.size(), 25U);
    EXPECT_EQ(outcome.ids.front(), std::vector<std::int64_t>{14});
    EXPECT_EQ(outcome.num_skipped, 3);
  }
}

/// A random pipeline with something in it that throws, for any number of threads.
class FailingPipeline {
 public:
  explicit FailingPipeline(std::uint64_t seed) : random_(seed), size_(20 + below(40)) {
    indexed_ = below(3) == 0;
    for (std::int64_t i = below(3); i > 0; --i) damaged_.insert(below(size_));
    operations_.push_back(random_map());
    for (std::int64_t i = 1 + below(6); i > 0; --i) operations_.push_back(random_operation());
  }

  Dataset dataset(int threads) const {
    Dataset dataset = indexed_ ? numbers(size_, damaged_) : number_stream(size_, damaged_, 7);
    for (const auto& operation : operations_) dataset = operation(dataset, threads);
    return dataset;
  }
  /// What is read ahead of where `take` ends is counted where there are threads to read it.
  bool counts_exactly() const { return !has_take_; }

 private:
  using Build = std::function<Dataset(const Dataset&, int threads)>;

  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(bound));
  }

  Build random_map() {
    std::set<std::int64_t> ids;
    for (std::int64_t i = below(3); i > 0; --i) ids.insert(below(size_));
    return [ids, is_damage = below(2) == 0](const Dataset& dataset, int threads) {
      return with_threads(dataset, throwing_at(ids, is_damage), threads);
    };
  }

  Build random_operation() {
    const std::int64_t a = below(6), b = 2 + below(2);
    switch (below(9)) {
      case 0:
        return [b](const Dataset& dataset, int) {
          return dataset.filter([b](const Example& example) { return ids_of(example)[0] % (b + 1) != 0; });
        };
      case 1:
        return [a](const Dataset& dataset, int) {
          // An order of data by number takes 4 bytes an example.
          const std::int64_t order_bytes = 4 * dataset.size().value_or(0);
          return dataset.shuffle({.seed = 3, .buffer_bytes = static_cast<std::size_t>(order_bytes + 500 + 500 * a)});
        };
      case 2:
        if (is_batched_) return random_map();
        is_batched_ = true;
        return [b](const Dataset& dataset, int) { return dataset.batch({.size = b, .pad = true}); };
      case 3:
        if (has_policy_) return random_map();
        has_policy_ = true;
        return [](const Dataset& dataset, int) { return dataset.on_error(ErrorPolicy::skip_record); };
      case 4:
        return [a, b](const Dataset& dataset, int) { return dataset.shard(b, a % b); };
      case 5:
        return [a](const Dataset& dataset, int) { return dataset.skip(4 * a); };
      case 6:
        has_take_ = true;
        return [a](const Dataset& dataset, int) { return dataset.take(6 + 6 * a); };
      case 7:
        return [](const Dataset& dataset, int) { return dataset.repeat(2); };
      default:
        return random_map();
    }
  }

  std::mt19937_64 random_;
  const std::int64_t size_;
  bool indexed_ = false, is_batched_ = false, has_policy_ = false, has_take_ = false;
  std::set<std::int64_t> damaged_;
  std::vector<Build> operations_;
};

/// How many of the pipelines threw.
int expect_outcomes_without_threads(std::uint64_t first, std::uint64_t count) {
  using sectionflow::testing::Watchdog;
  const Watchdog watchdog(10);
  int num_thrown = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    Watchdog::watch("failing pipeline of seed " + std::to_string(seed));
    const FailingPipeline pipeline(seed);
    Outcome wanted = outcome_of(pipeline.dataset(0));
    if (!wanted.error.empty()) ++num_thrown;
    for (int threads : kThreads) {
      Outcome outcome = outcome_of(pipeline.dataset(threads));
      if (!pipeline.counts_exactly()) outcome.num_skipped = wanted.num_skipped;
      const Outcome rest = outcome_of(pipeline.dataset(0), outcome.position);
      EXPECT_EQ(rest.ids, Ids()) << "seed " << seed << ", threads " << threads;
      EXPECT_EQ(rest.error, wanted.error) << "seed " << seed << ", threads " << threads;
      EXPECT_EQ(outcome, wanted) << "seed " << seed << ", threads " << threads << "\n" << pipeline.dataset(0).text();
    }
    if (::testing::Test::HasFailure()) break;
  }
  return num_thrown;
}

TEST(DatasetFailures, AreThoseOfAWalkWithoutThreads) {
  EXPECT_GT(expect_outcomes_without_threads(1, 400), 40);
}
TEST(MoreDatasetFailures, AreThoseOfAWalkWithoutThreads) {
  EXPECT_GT(expect_outcomes_without_threads(100000, 10000), 500);
}

}  // namespace
}  // namespace sectionflow

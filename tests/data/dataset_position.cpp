// A walk that is broken off anywhere goes on from its position with the same bytes.

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "data/dataset.h"
#include "data/maps.h"
#include "tests/data/prefetched.h"
#include "tests/support/data_examples.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

bool is_kept(const Example& example) {
  return ids_of(example)[0] % 3 != 0;
}

/// A pipeline with so many threads for its maps, and prefetch where there are several.
struct PipelineCase {
  std::string name;
  std::function<Dataset(int threads)> make;

  friend void PrintTo(const PipelineCase& pipeline, std::ostream* stream) { *stream << pipeline.name; }
};

std::vector<PipelineCase> pipeline_cases() {
  const BatchOptions buckets{.size = 3, .pad = true, .bucket_boundaries = {2, 4}, .bucket_by = "row"};
  const ShuffleOptions buffer{.seed = 6, .buffer_bytes = 9 * 330};
  return {
      {"by number",
       [](int threads) {
         return prefetched(numbers(23)
                               .shuffle({.seed = 3})
                               .map(scrambled, {.threads = threads})
                               .batch({.size = 4, .pad = true})
                               .repeat(3),
                           threads);
       }},
      {"by number, repeated before",
       [](int threads) {
         return prefetched(
             numbers(11).map(scrambled, {.threads = threads}).shuffle({.seed = 3}).repeat(3).shard(2, 1).skip(2),
             threads);
       }},
      {"stream",
       [](int threads) {
         return prefetched(
             number_stream(23).map(scrambled, {.threads = threads}).repeat(2).batch({.size = 4, .pad = true}), threads);
       }},
      {"stream with a buffer",
       [buffer](int threads) {
         return prefetched(number_stream(40).shuffle(buffer).map(scrambled, {.threads = threads}).repeat(2), threads);
       }},
      {"buffer over epochs",
       [buffer](int threads) {
         return prefetched(number_stream(15)
                               .map(scrambled, {.threads = threads})
                               .repeat(3)
                               .shuffle(buffer)
                               .batch({.size = 2, .pad = true}),
                           threads);
       }},
      {"filter by number, then a buffer",
       [buffer](int threads) {
         return prefetched(
             numbers(40).shuffle({.seed = 1}).filter(is_kept).map(scrambled, {.threads = threads}).shuffle(buffer),
             threads);
       }},
      {"buckets",
       [buckets](int threads) {
         return prefetched(number_stream(40).map(scrambled, {.threads = threads}).batch(buckets).repeat(2), threads);
       }},
      {"buckets over epochs behind a buffer",
       [buckets, buffer](int threads) {
         return prefetched(
             number_stream(17).shuffle(buffer).map(scrambled, {.threads = threads}).repeat(2).batch(buckets), threads);
       }},
      {"batches in a buffer",
       [buckets](int threads) {
         return prefetched(numbers(40)
                               .filter(is_kept)
                               .map(scrambled, {.threads = threads})
                               .batch(buckets)
                               .shuffle({.seed = 5, .buffer_bytes = 1500}),
                           threads);
       }},
      {"batches in a buffer over epochs",
       [](int threads) {
         return prefetched(number_stream(13)
                               .batch({.size = 2, .pad = true})
                               .repeat(3)
                               .shuffle({.seed = 5, .buffer_bytes = 1800})
                               .prefetch()
                               .map(scrambled, {.threads = threads}),
                           threads);
       }},
      {"batches dealt out",
       [](int threads) {
         return prefetched(number_stream(40)
                               .map(scrambled, {.threads = threads})
                               .batch({.size = 3, .pad = true})
                               .shard(3, 1, {.drop_remainder = true})
                               .repeat(2),
                           threads);
       }},
      {"buffer in a buffer",
       [buffer](int threads) {
         return prefetched(number_stream(30)
                               .shuffle(buffer)
                               .map(scrambled, {.threads = threads})
                               .prefetch({.batches = 3})
                               .shuffle({.seed = 8, .buffer_bytes = 1500})
                               .take(25)
                               .skip(1),
                           threads);
       }},
      {"damaged records of a stream",
       [buffer](int threads) {
         return prefetched(number_stream(30, {0, 7, 8, 29})
                               .shuffle(buffer)
                               .map(scrambled, {.threads = threads})
                               .repeat(2)
                               .on_error(ErrorPolicy::skip_record),
                           threads);
       }},
      {"damaged files of a stream",
       [buffer](int threads) {
         return prefetched(number_stream(40, {3, 15, 16, 38}, 10)
                               .map(scrambled, {.threads = threads})
                               .repeat(2)
                               .shuffle(buffer)
                               .on_error(ErrorPolicy::skip_file),
                           threads);
       }},
      {"damaged by number",
       [](int threads) {
         return prefetched(numbers(30, {0, 7, 8, 29})
                               .shuffle({.seed = 4})
                               .map(scrambled, {.threads = threads})
                               .repeat(2)
                               .on_error(ErrorPolicy::skip_record)
                               .batch({.size = 4, .pad = true}),
                           threads);
       }},
      {"shard of a stream of batches",
       [](int threads) {
         return prefetched(number_stream(40)
                               .map(scrambled, {.threads = threads})
                               .batch({.size = 3, .pad = true})
                               .shard(3, 1)
                               .repeat(2),
                           threads);
       }},
  };
}

std::vector<Example> all_of(DatasetIterator& iterator) {
  std::vector<Example> all;
  while (auto example = iterator.next()) all.push_back(std::move(*example));
  return all;
}

void expect_same_tail(const std::vector<Example>& all, std::size_t first, const std::vector<Example>& tail) {
  ASSERT_EQ(all.size() - first, tail.size());
  for (std::size_t i = 0; i < tail.size(); ++i)
    ASSERT_TRUE(same_example(all[first + i], tail[i])) << "item " << first + i;
}

class Positions : public ::testing::TestWithParam<PipelineCase> {};

TEST_P(Positions, AWalkGoesOnFromAnyPlaceWithAnyNumberOfThreads) {
  const Dataset plain = GetParam().make(1), threaded = GetParam().make(3);
  DatasetIterator walk = plain.iterate();
  const std::vector<Example> all = all_of(walk);
  ASSERT_GT(all.size(), 5U);
  DatasetIterator with_threads = threaded.iterate();
  expect_same_tail(all, 0, all_of(with_threads));

  DatasetIterator first = plain.iterate(), second = threaded.iterate();
  for (std::size_t place = 0; place <= all.size(); ++place) {
    SCOPED_TRACE(place);
    const std::string position = first.position();
    ASSERT_EQ(position, second.position()) << "what is made ahead shows";
    DatasetIterator rest = threaded.iterate(position);
    ASSERT_EQ(rest.position(), position);
    ASSERT_EQ(rest.epoch(), first.epoch());
    expect_same_tail(all, place, all_of(rest));
    // Broken off twice: what was held has been made again by then.
    DatasetIterator again = plain.iterate(position);
    for (int i = 0; i < 2; ++i) (void)again.next();
    DatasetIterator last = plain.iterate(again.position());
    expect_same_tail(all, std::min(place + 2, all.size()), all_of(last));
    (void)first.next();
    (void)second.next();
  }
}

INSTANTIATE_TEST_SUITE_P(Pipelines, Positions, ::testing::ValuesIn(pipeline_cases()), [](const auto& info) {
  std::string name = info.param.name;
  name.erase(std::remove_if(name.begin(), name.end(), [](char c) { return c == ' ' || c == ','; }), name.end());
  return name;
});

TEST(DatasetPosition, DataByNumberGoOnWithoutMakingWhatCameBefore) {
  const auto source = std::make_shared<NumberedSource>(1000000);
  const Dataset dataset = Dataset::from(std::shared_ptr<const IndexedSource>(source))
                              .map(scrambled)
                              .shuffle({.seed = 1})
                              .batch({.size = 10, .pad = true})
                              .repeat();
  DatasetIterator iterator = dataset.iterate();
  for (int i = 0; i < 100; ++i) (void)iterator.next();
  const std::string position = iterator.position();
  EXPECT_LT(position.size(), 400U);
  source->made = 0;
  DatasetIterator rest = dataset.iterate(position);
  const auto wanted = iterator.next(), got = rest.next();
  EXPECT_TRUE(same_example(*wanted, *got));
  EXPECT_EQ(source->made, 20);
}

TEST(DatasetPosition, HeldExamplesOfAStreamAreMadeAgainInOneReading) {
  const auto source = std::make_shared<NumberedStream>(1000);
  const Dataset dataset =
      Dataset::from(std::shared_ptr<const StreamSource>(source)).shuffle({.seed = 1, .buffer_bytes = 100 * 330});
  DatasetIterator iterator = dataset.iterate();
  for (int i = 0; i < 500; ++i) (void)iterator.next();
  const std::string position = iterator.position();
  source->made = source->opened = 0;
  DatasetIterator rest = dataset.iterate(position);
  EXPECT_LE(source->made, 101);
  EXPECT_EQ(source->opened, 1);
  EXPECT_EQ(drain(rest), drain(iterator));
}

TEST(DatasetPosition, AnEpochByItselfGoesOnToItsEnd) {
  const Dataset dataset = numbers(20).shuffle({.seed = 1}).batch({.size = 3, .pad = true});
  DatasetIterator third = dataset.iterate_epoch(3);
  (void)third.next();
  DatasetIterator rest = dataset.iterate(third.position());
  EXPECT_EQ(drain(rest), drain(third));
}

TEST(DatasetPosition, ALongerRunGoesOn) {
  const auto run = [](std::int64_t epochs) {
    return numbers(5).shuffle().batch({.size = 2, .pad = true}).repeat(epochs).prefetch();
  };
  DatasetIterator shorter = run(2).iterate();
  const Ids ids = drain(shorter);
  DatasetIterator longer = run(4).iterate(shorter.position());
  Ids all = ids;
  for (auto& batch : drain(longer)) all.push_back(std::move(batch));
  EXPECT_EQ(all, drain(run(4)));
  DatasetIterator ended = run(1).iterate(shorter.position());
  EXPECT_FALSE(ended.next().has_value());

  DatasetIterator by_number = numbers(5).repeat(2).iterate();
  EXPECT_EQ(drain(by_number).size(), 10U);
  DatasetIterator more = numbers(5).repeat(3).iterate(by_number.position());
  EXPECT_EQ(flat(drain(more)), (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
  DatasetIterator fewer = numbers(5).repeat(1).skip(0).iterate(numbers(5).repeat(2).skip(0).iterate().position());
  EXPECT_EQ(drain(fewer).size(), 5U);
}

TEST(DatasetPosition, RanksOfAnotherNumberGoOnBehindWholeRounds) {
  const auto batches = [](std::int64_t epochs) {
    return number_stream(47).map(scrambled).batch({.size = 3, .drop_remainder = true, .pad = true}).repeat(epochs);
  };
  const auto dealt = [&](std::int64_t ranks, std::int64_t rank) {
    return batches(2).shard(ranks, rank, {.drop_remainder = true}).prefetch();
  };
  DatasetIterator first = dealt(2, 0).iterate();
  for (int round = 0; round < 3; ++round) (void)first.next();
  const std::string position = first.position();
  const Ids all = drain(batches(2));  // of which two ranks have taken six
  for (std::int64_t ranks = 1; ranks <= 4; ++ranks) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      DatasetIterator rest = dealt(ranks, rank).iterate(position);
      Ids expected;
      for (std::size_t round = 6; round + static_cast<std::size_t>(ranks) <= all.size();
           round += static_cast<std::size_t>(ranks)) {
        expected.push_back(all[round + static_cast<std::size_t>(rank)]);
      }
      EXPECT_EQ(drain(rest), expected) << rank << " of " << ranks;
    }
  }
}

TEST(DatasetPosition, WhatARankHoldsIsItsOwn) {
  const auto dealt = [](std::int64_t rank) {
    return number_stream(40).shard(2, rank, {.drop_remainder = true}).shuffle({.buffer_bytes = 4000});
  };
  const std::string position = dealt(0).iterate().position();
  EXPECT_THROW((void)dealt(1).iterate(position), ArgumentError);
}

std::string position_refusal(const Dataset& dataset, const std::string& position) {
  return whole_error_text<ArgumentError>([&] { (void)dataset.iterate(position); });
}

TEST(DatasetPosition, AnotherPipelineIsRefusedNamingTheDifference) {
  const std::string position = numbers(10).shuffle({.seed = 1}).batch({.size = 4}).iterate().position();
  const std::string other_size = position_refusal(numbers(10).shuffle({.seed = 1}).batch({.size = 5}), position);
  EXPECT_NE(other_size.find("SF-E403"), std::string::npos) << other_size;
  EXPECT_NE(other_size.find("operation 2 of this one is 'batch(size 5)', of the position's 'batch(size 4)'"),
            std::string::npos)
      << other_size;
  EXPECT_NE(position_refusal(numbers(10).shuffle({.seed = 2}).batch({.size = 4}), position).find("'shuffle(seed 1)'"),
            std::string::npos);
  EXPECT_NE(
      position_refusal(numbers(11).shuffle({.seed = 1}).batch({.size = 4}), position).find("'numbers: 11 examples'"),
      std::string::npos);
  EXPECT_NE(position_refusal(numbers(10).shuffle({.seed = 1}), position).find("this one is its end"),
            std::string::npos);
  EXPECT_NE(position_refusal(numbers(10).shuffle({.seed = 1}).batch({.size = 4}).take(3), position)
                .find("position's its end"),
            std::string::npos);
  const std::string flips = numbers(10).map(maps::random_flip({.probability = 0.25F})).iterate().position();
  EXPECT_NE(position_refusal(numbers(10).map(maps::random_flip()), flips).find("random_flip image with 0.5"),
            std::string::npos);
  // Where a shuffle mixes epochs, their number decides the order.
  const std::string mixed = numbers(10).repeat(2).shuffle().iterate().position();
  EXPECT_NE(position_refusal(numbers(10).repeat(3).shuffle(), mixed).find("'repeat(3 epochs)'"), std::string::npos);
}

TEST(DatasetPosition, WhatHasFailedAtADamagedRecordGoesOnWithoutItAndWhatHasSkippedOneGoesOnAsItWas) {
  for (const ErrorPolicy policy : {ErrorPolicy::skip_record, ErrorPolicy::skip_file}) {
    for (const Dataset& dataset : {numbers(10, {4}).shuffle(), number_stream(10, {4}, 6).shuffle()}) {
      const Dataset batches = dataset.batch({.size = 2, .pad = true});
      const std::string position = batches.iterate().position();
      DatasetIterator skipping = dataset.on_error(policy).batch({.size = 2, .pad = true}).iterate(position);
      (void)drain(skipping);
      EXPECT_EQ(skipping.statistics().skipped_records, 1);
      const Dataset failing = dataset.on_error(ErrorPolicy::fail).batch({.size = 2, .pad = true});
      DatasetIterator other =
          dataset.on_error(policy).batch({.size = 2, .pad = true}).iterate(failing.iterate().position());
      (void)drain(other);
      EXPECT_EQ(other.statistics().skipped_records, 1);
      EXPECT_NE(position_refusal(batches, skipping.position()).find("SF-E403"), std::string::npos);
    }
  }
}

TEST(DatasetPosition, DamagedTextsAreRefusedOrReadTheSame) {
  const Dataset dataset = number_stream(30)
                              .shuffle({.seed = 2, .buffer_bytes = 1000})
                              .map(scrambled)
                              .repeat(2)
                              .batch({.size = 3, .pad = true, .bucket_boundaries = {3}, .bucket_by = "row"});
  DatasetIterator iterator = dataset.iterate();
  for (int i = 0; i < 4; ++i) (void)iterator.next();
  const std::string good = iterator.position();
  const auto walk = [&](const std::string& text) {
    try {
      DatasetIterator rest = dataset.iterate(text);
      for (int i = 0; i < 40 && rest.next(); ++i) {
      }
    } catch (const Error&) {  // anything else ends the test
    }
  };
  for (std::size_t length = 1; length < good.size(); ++length) {
    EXPECT_THROW((void)dataset.iterate(good.substr(0, length)), Error) << length;
  }
  for (std::size_t byte = 0; byte < good.size(); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string text = good;
      text[byte] = static_cast<char>(text[byte] ^ (1 << bit));
      walk(text);
    }
  }
  // Each number as large as it can be, negative, left out, or twice.
  const std::size_t state = good.find("\"state\":[") + 9;
  for (std::size_t at = state; at < good.size(); ++at) {
    if (good[at - 1] != ',' && at != state) continue;
    const std::size_t end = good.find_first_of(",]", at);
    for (const std::string number :
         {"9223372036854775807", "18446744073709551615", "-1", "1e3", "0", "1000000", "\"1\""}) {
      walk(good.substr(0, at) + number + good.substr(end));
    }
  }
  for (const std::string text :
       {"{}", "[]", "null", "7", "\"x\"", "[[[[[[[[[[", "{\"format\":\"sectionflow data position\"}", "nonsense"}) {
    EXPECT_NE(whole_error_text<DataError>([&] { (void)dataset.iterate(text); }).find("SF-E404"), std::string::npos)
        << text;
  }
  EXPECT_THROW((void)dataset.iterate(std::string(1000000, '[')), DataError);
}

}  // namespace
}  // namespace sectionflow

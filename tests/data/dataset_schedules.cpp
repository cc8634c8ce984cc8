// Random pipelines on random numbers of threads, beside a model that computes lists: the same examples, from any
// position, and no walk that hangs when it is broken off.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>

#include "data/dataset.h"
#include "data/permutation.h"
#include "tests/support/batch_memory.h"
#include "tests/support/data_examples.h"
#include "tests/support/watchdog.h"

namespace sectionflow {
namespace {

/// What the model knows of an example or a batch.
struct ModelItem {
  std::vector<std::int64_t> ids;
  std::int64_t row_bytes = 0;  // of its tensor "row", padded
  std::int64_t row_length = 0;
  std::size_t counted_bytes() const { return ids.size() * 8 + static_cast<std::size_t>(row_bytes) + 2 * 160; }
};
using ModelItems = std::vector<ModelItem>;
/// What comes out of a pipeline in an epoch.
using Model = std::function<ModelItems(std::int64_t epoch)>;

ModelItem batched(const ModelItems& items) {
  ModelItem batch;
  for (const ModelItem& item : items) {
    batch.ids.push_back(item.ids[0]);
    batch.row_length = std::max(batch.row_length, item.row_length);
  }
  batch.row_bytes = batch.row_length * static_cast<std::int64_t>(items.size());
  return batch;
}

ModelItems shuffled_by_buffer(const ModelItems& items, const ShuffleOptions& options, std::int64_t epoch) {
  ModelItems held, out;
  std::size_t come = 0, bytes = 0;
  const RandomAddress address{options.seed, kShuffleNode, static_cast<std::uint32_t>(epoch)};
  while (true) {
    for (; come < items.size() && bytes < options.buffer_bytes; ++come) {
      held.push_back(items[come]);
      bytes += items[come].counted_bytes();
    }
    if (held.empty()) return out;
    const std::uint32_t word = random_words(address, out.size() / 4)[out.size() % 4];
    const auto place = static_cast<std::size_t>(std::uint64_t{word} * held.size() >> 32);
    bytes -= held[place].counted_bytes();
    out.push_back(held[place]);
    held[place] = held.back();
    held.pop_back();
  }
}

ModelItems in_buckets(const ModelItems& items, const BatchOptions& options) {
  std::vector<ModelItems> buckets(options.bucket_boundaries.size() + 1);
  ModelItems out;
  for (const ModelItem& item : items) {
    std::size_t bucket = 0;
    while (bucket < options.bucket_boundaries.size() && item.row_length >= options.bucket_boundaries[bucket]) ++bucket;
    buckets[bucket].push_back(item);
    if (static_cast<std::int64_t>(buckets[bucket].size()) < options.size) continue;
    out.push_back(batched(buckets[bucket]));
    buckets[bucket].clear();
  }
  for (const ModelItems& bucket : buckets) {
    if (!bucket.empty() && !options.drop_remainder) out.push_back(batched(bucket));
  }
  return out;
}

/// A random pipeline, its model, and the same pipeline with every other number of threads.
class RandomPipeline {
 public:
  explicit RandomPipeline(std::uint64_t seed) : random_(seed) {
    size_ = below(3) == 0 ? below(4) : below(60);
    indexed_ = below(2) == 0;
    if (below(3) == 0) {
      for (std::int64_t i = below(4); i > 0 && size_ > 0; --i) damaged_.insert(below(size_));
    }
    policy_ = below(2) == 0 ? ErrorPolicy::skip_record : ErrorPolicy::skip_file;
    for (std::int64_t i = below(7); i > 0; --i) add_operation();
  }

  /// The pipeline with threads, prefetches and pauses that follow from `variant`; 0 is without any.
  Dataset dataset(std::uint64_t variant) const {
    std::mt19937_64 random(variant);
    const auto flip = [&](int of) { return variant != 0 && random() % static_cast<std::uint64_t>(of) == 0; };
    Dataset dataset = indexed_ ? numbers(size_, damaged_) : number_stream(size_, damaged_, 7);
    dataset = dataset.on_error(policy_);
    for (const auto& operation : operations_) {
      const int threads = variant == 0 ? 1 : 1 + static_cast<int>(random() % 4);
      dataset = operation(dataset, threads, flip(3));
      if (flip(4))
        dataset = dataset.prefetch(
            {.batches = 1 + static_cast<int>(random() % 5), .max_bytes = flip(2) ? std::size_t{1} : 1_MiB});
    }
    return flip(2) ? dataset.prefetch() : dataset;
  }

  Ids model() const {
    // The source, what is damaged left out: files have seven records.
    ModelItems source;
    std::int64_t damaged_file = -1;
    for (std::int64_t id = 0; id < size_; ++id) {
      if (damaged_.contains(id) && !indexed_ && policy_ == ErrorPolicy::skip_file) damaged_file = id / 7;
      if (damaged_.contains(id) || id / 7 == damaged_file) continue;
      source.push_back({{id}, 1 + id % 5, 1 + id % 5});
    }
    Model model = [source](std::int64_t) { return source; };
    for (const auto& layer : layers_) model = layer(model);
    Ids ids;
    for (const ModelItem& item : model(0)) ids.push_back(item.ids);
    return ids;
  }

  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(bound));
  }

 private:
  using Build = std::function<Dataset(const Dataset&, int threads, bool pauses)>;
  using Layer = std::function<Model(Model)>;

  void add(Build build, Layer layer) {
    operations_.push_back(std::move(build));
    layers_.push_back(std::move(layer));
  }

  void add_operation() {
    // By number, what is damaged is counted: the model of that is another test's.
    const bool sequence_only = indexed_ && !damaged_.empty();
    switch (below(8)) {
      case 0:
      case 1:
        return add_map();
      case 2:
        return add_filter();
      case 3:
        return sequence_only && is_indexed_ ? add_filter() : add_shuffle();
      case 4:
        return is_batched_ ? add_map() : add_batch();
      case 5:
        return sequence_only && is_indexed_ ? add_filter() : add_repeat();
      case 6:
        return sequence_only && is_indexed_ ? add_filter() : add_slice();
      default:
        return add_map();
    }
  }

  void add_map() {
    // By number, an example that is left out keeps its index: no draws then.
    if (indexed_ && !damaged_.empty() && is_indexed_) return add_filter();
    const std::uint64_t seed = random_() % 3;
    const std::uint32_t node = kShuffleNode - ++num_maps_;
    add(
        [seed](const Dataset& dataset, int threads, bool pauses) {
          return dataset.map(
              [pauses](Example example, const MapContext& context) {
                if (pauses && context.index % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
                if (pauses && context.index % 3 == 1) std::this_thread::yield();
                return scrambled(std::move(example), context);
              },
              {.threads = threads, .seed = seed, .max_bytes = pauses ? std::size_t{1000} : 1_MiB});
        },
        [seed, node](const Model& before) {
          return [=](std::int64_t epoch) {
            ModelItems items = before(epoch);
            for (std::size_t i = 0; i < items.size(); ++i) {
              const MapContext context(seed, node, epoch, static_cast<std::int64_t>(i));
              for (std::int64_t& id : items[i].ids) id = id % 1000 * 1000 + context.below(1000, 0);
            }
            return items;
          };
        });
  }

  void add_filter() {
    const std::int64_t divisor = 2 + below(4);
    is_indexed_ = false;
    add(
        [divisor](const Dataset& dataset, int, bool) {
          return dataset.filter([divisor](const Example& example) { return ids_of(example)[0] % divisor != 0; });
        },
        [divisor](const Model& before) {
          return [=](std::int64_t epoch) {
            ModelItems items = before(epoch);
            std::erase_if(items, [&](const ModelItem& item) { return item.ids[0] % divisor == 0; });
            return items;
          };
        });
  }

  void add_shuffle() {
    const bool by_number = indexed_ && is_indexed_;
    const ShuffleOptions options{.seed = random_() % 3,
                                 .buffer_bytes = static_cast<std::size_t>(by_number ? 1 << 20 : 1 + below(12000))};
    add([options](const Dataset& dataset, int, bool) { return dataset.shuffle(options); },
        [options, by_number](const Model& before) {
          return [=](std::int64_t epoch) {
            const ModelItems items = before(epoch);
            if (!by_number) return shuffled_by_buffer(items, options, epoch);
            ModelItems out;
            for (std::uint32_t index : epoch_order(static_cast<std::int64_t>(items.size()), options.seed, epoch)) {
              out.push_back(items[index]);
            }
            return out;
          };
        });
  }

  void add_batch() {
    BatchOptions options{.size = 1 + below(6), .drop_remainder = below(3) == 0, .pad = true};
    const bool buckets = below(2) == 0;
    if (buckets) {
      options.bucket_boundaries = {2 + below(2), 4 + below(3)};
      options.bucket_by = "row";
    }
    is_indexed_ = false;
    is_batched_ = true;
    add([options](const Dataset& dataset, int, bool) { return dataset.batch(options); },
        [options, buckets](const Model& before) {
          return [=](std::int64_t epoch) {
            const ModelItems items = before(epoch);
            if (buckets) return in_buckets(items, options);
            ModelItems out;
            for (std::size_t i = 0; i < items.size(); i += static_cast<std::size_t>(options.size)) {
              const std::size_t end = std::min(items.size(), i + static_cast<std::size_t>(options.size));
              if (options.drop_remainder && end - i < static_cast<std::size_t>(options.size)) break;
              out.push_back(batched(
                  {items.begin() + static_cast<std::ptrdiff_t>(i), items.begin() + static_cast<std::ptrdiff_t>(end)}));
            }
            return out;
          };
        });
  }

  void add_repeat() {
    const std::int64_t epochs = below(4);
    add([epochs](const Dataset& dataset, int, bool) { return dataset.repeat(epochs); },
        [epochs](const Model& before) {
          return [=](std::int64_t epoch) {
            ModelItems items;
            for (std::int64_t lap = 0; lap < epochs; ++lap) {
              const ModelItems of_lap = before(epoch * epochs + lap);
              if (of_lap.empty()) break;
              items.insert(items.end(), of_lap.begin(), of_lap.end());
            }
            return items;
          };
        });
  }

  void add_slice() {
    const std::int64_t kind = below(3), a = below(8), b = 1 + below(3);
    add(
        [=](const Dataset& dataset, int, bool) {
          return kind == 0 ? dataset.take(5 * a) : kind == 1 ? dataset.skip(a) : dataset.shard(b, a % b);
        },
        [=](const Model& before) {
          return [=](std::int64_t epoch) {
            const ModelItems items = before(epoch);
            ModelItems out;
            for (std::int64_t i = 0; i < static_cast<std::int64_t>(items.size()); ++i) {
              if (kind == 0 ? i < 5 * a : kind == 1 ? i >= a : i % b == a % b)
                out.push_back(items[static_cast<std::size_t>(i)]);
            }
            return out;
          };
        });
  }

  std::mt19937_64 random_;
  std::int64_t size_ = 0;
  bool indexed_ = false;  // the source
  std::set<std::int64_t> damaged_;
  ErrorPolicy policy_ = ErrorPolicy::fail;
  bool is_indexed_ = true;  // the pipeline so far, if the source is
  bool is_batched_ = false;
  std::uint32_t num_maps_ = 0;
  std::vector<Build> operations_;
  std::vector<Layer> layers_;
};

void expect_pipeline_to_hold(std::uint64_t seed) {
  RandomPipeline pipeline(seed);
  const Ids wanted = pipeline.model();
  ASSERT_EQ(drain(pipeline.dataset(0)), wanted) << pipeline.dataset(0).text();
  const std::uint64_t variant = 1 + seed;
  const Dataset dataset = pipeline.dataset(variant);
  ASSERT_EQ(drain(dataset), wanted) << dataset.text();

  // In memory that is lent, of which there is some now and then: not an element differs.
  const auto memory = std::make_shared<testing_support::CountedMemory>(2 + static_cast<int>(seed % 3));
  {
    DatasetIterator plain = pipeline.dataset(0).iterate(), lent = pipeline.dataset(variant + 3).iterate();
    lent.lend(memory);
    while (const auto example = plain.next()) {
      const auto same = lent.next();
      ASSERT_TRUE(same.has_value() && same_example(*example, *same)) << dataset.text();
    }
  }
  ASSERT_EQ(memory->out(), 0) << dataset.text();

  // Broken off at a random place, and gone on with on other threads.
  DatasetIterator first = dataset.iterate();
  const std::int64_t place = pipeline.below(static_cast<std::int64_t>(wanted.size()) + 1);
  for (std::int64_t i = 0; i < place; ++i) ASSERT_EQ(ids_of(*first.next()), wanted[static_cast<std::size_t>(i)]);
  const std::string position = first.position();
  { const DatasetIterator dropped = std::move(first); }
  DatasetIterator rest = pipeline.dataset(variant + 7).iterate(position);
  ASSERT_EQ(drain(rest), Ids(wanted.begin() + place, wanted.end())) << dataset.text() << position;

  // A map that throws somewhere: what comes before it is the same, and so is the place.
  std::size_t delivered[2];
  const std::int64_t bad = pipeline.below(1000);
  for (int run = 0; run < 2; ++run) {
    DatasetIterator failing = pipeline.dataset(run == 0 ? 0 : variant)
                                  .map(
                                      [bad](Example example) {
                                        if (ids_of(example)[0] % 1000 == bad % 200) throw std::domain_error("bad");
                                        return example;
                                      },
                                      {.threads = run == 0 ? 1 : 3})
                                  .prefetch()
                                  .iterate();
    delivered[run] = 0;
    try {
      while (failing.next()) ++delivered[run];
    } catch (const std::domain_error&) {
    }
  }
  ASSERT_EQ(delivered[0], delivered[1]) << dataset.text();
}

void expect_pipelines_to_hold(std::uint64_t first, std::uint64_t count) {
  using sectionflow::testing::Watchdog;
  const Watchdog watchdog(10);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    Watchdog::watch("random pipeline of seed " + std::to_string(seed));
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_pipeline_to_hold(seed);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(DatasetSchedules, AreTheModelsWhateverTheThreads) {
  expect_pipelines_to_hold(1, 300);
}
TEST(MoreDatasetSchedules, AreTheModelsWhateverTheThreads) {
  expect_pipelines_to_hold(1000, 10000);
}

}  // namespace
}  // namespace sectionflow

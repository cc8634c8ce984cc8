// How many images a second data pipelines deliver: decoded from IDX, shuffled, brought to [0, 1] and batched, on one
// core or with threads. The loader and the pipelines take turns, and medians are told.

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "bench/median.h"
#include "bench/program.h"
#include "sectionflow.h"

namespace {

using namespace sectionflow;

struct Arguments {
  std::string data = kFashionMnistFolder;
  std::int64_t batch = 100;
  int rounds = 5, threads = 2;
};

struct Contender {
  std::string name;
  std::function<std::int64_t()> images;  // walks one epoch
  std::vector<double> images_per_second = {};
};

std::int64_t walk(const Dataset& dataset, const std::shared_ptr<BatchMemory>& memory = nullptr) {
  DatasetIterator iterator = dataset.iterate();
  iterator.lend(memory);
  while (iterator.next()) {
  }
  return iterator.statistics().examples;
}

/// The same images one after the other, as a file of records would give them.
class ImageStream : public StreamSource {
 public:
  explicit ImageStream(Dataset images) : images_(std::move(images)) {}
  std::string name() const override { return "images"; }
  std::unique_ptr<ExampleStream> open() const override { return std::make_unique<Stream>(images_.iterate()); }

 private:
  class Stream : public ExampleStream {
   public:
    explicit Stream(DatasetIterator iterator) : iterator_(std::move(iterator)) {}
    std::optional<Example> next() override { return iterator_.next(); }
    std::int64_t skip(std::int64_t count) override {
      std::int64_t skipped = 0;
      while (skipped < count && iterator_.next()) ++skipped;
      return skipped;
    }

   private:
    DatasetIterator iterator_;
  };
  const Dataset images_;
};

int run(const Arguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  const LabeledImages images = std::filesystem::is_directory(arguments.data)
                                   ? load_mnist(arguments.data).train
                                   : synthetic_mnist({.train_size = 60000}).train;
  const double load_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto num_images = static_cast<double>(images.labels.num_elements());
  std::printf("%s: %.0f images, decoded in %.2f s (%.0f images/s)\n", images.name.c_str(), num_images, load_seconds,
              num_images / load_seconds);

  const BatchOptions batch{.size = arguments.batch};
  const int threads = arguments.threads;
  const Dataset source = Dataset::from(images);
  const Dataset plain = source.shuffle({.seed = 1}).map(maps::normalize()).batch(batch);
  const auto augmented = [&](int workers) {
    return source.shuffle({.seed = 1})
        .map(maps::random_crop({.height = 28, .width = 28, .padding = 2}), {.threads = workers})
        .map(maps::random_flip(), {.threads = workers})
        .map(maps::normalize(), {.threads = workers})
        .batch(batch);
  };
  const Dataset stream = Dataset::from(std::shared_ptr<const StreamSource>(std::make_shared<ImageStream>(source)))
                             .shuffle({.seed = 1, .buffer_bytes = 16_MiB})
                             .map(maps::normalize())
                             .batch(batch);
  const auto loader = [&](int prefetch) {
    BatchLoader batches(images, {.batch = arguments.batch, .seed = 1, .prefetch = prefetch});
    std::int64_t count = 0;
    while (const auto one = batches.next()) count += one->labels.num_elements();
    return count;
  };
  Graph nothing;
  Session session(nothing, {.device_memory = 1_MiB, .lent_memory = 1_GiB, .threads = 1});
  const auto memory = batch_memory(session);
  const std::string workers = std::to_string(threads) + " threads";
  std::vector<Contender> contenders = {
      {"BatchLoader, one core", [&] { return loader(0); }},
      {"Dataset, one core", [&] { return walk(plain); }},
      {"Dataset, one core, lent memory", [&] { return walk(plain, memory); }},
      {"BatchLoader, prefetch", [&] { return loader(2); }},
      {"Dataset, prefetch", [&] { return walk(plain.prefetch()); }},
      {"Dataset, prefetch, lent memory", [&] { return walk(plain.prefetch(), memory); }},
      {"crop, flip, normalize, one core", [&] { return walk(augmented(1)); }},
      {"crop, flip, normalize, " + workers, [&] { return walk(augmented(threads).prefetch()); }},
      {"stream through a buffer of 16 MiB", [&] { return walk(stream); }},
  };
  for (int round = 0; round < arguments.rounds; ++round) {
    for (Contender& contender : contenders) {
      const auto begin = std::chrono::steady_clock::now();
      const auto count = static_cast<double>(contender.images());
      contender.images_per_second.push_back(
          count / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
  }
  for (const Contender& contender : contenders) {
    std::printf("%-40s %10.0f images/s\n", contender.name.c_str(), median(contender.images_per_second));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Measures how many images a second data pipelines deliver.");
  app.add_option("--data", arguments.data, "folder of the MNIST files; synthetic images where there is none");
  app.add_option("--batch", arguments.batch, "images in a batch")->check(CLI::PositiveNumber);
  app.add_option("--rounds", arguments.rounds, "epochs of each, in turns")->check(CLI::PositiveNumber);
  app.add_option("--threads", arguments.threads, "workers of the maps that have any")->check(CLI::Range(1, 1024));
  return run_program(app, argc, argv, [&] { return run(arguments); });
}

// What one core reads: records of TFRecord files with their checksums verified, the tf.train.Examples in them,
// rows of HDF5, and pictures; see docs/sources.md. Medians of rounds.

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/median.h"
#include "bench/program.h"
#include "data/dataset.h"
#include "data/tfrecord_source.h"
#include "sources/hdf5.h"
#include "sources/image_folder.h"

namespace {

using namespace sectionflow;

struct Arguments {
  std::int64_t record_bytes = 100'000;
  std::int64_t megabytes = 512;
  int rounds = 5;
  std::string images;
  std::int64_t row_bytes = 4096;
  std::int64_t min_side = 224;
};

double seconds_of(const std::function<void()>& work, int rounds) {
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return median(seconds);
}

/// A folder that goes with what is in it.
struct Folder {
  Folder() : path((std::filesystem::temp_directory_path() / "sectionflow-bench-XXXXXX").string()) {
    SF_CHECK(mkdtemp(path.data()) != nullptr, DataError, "no temporary folder at '", path, "'");
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

void read_records(const Arguments& arguments) {
  const Folder folder;
  TfrecordWriter writer(folder.path, "bench", {.shard_bytes = std::size_t{1} << 40});
  Example example;
  HostTensor bytes(Dtype::u8, {arguments.record_bytes});
  for (std::size_t i = 0; i < bytes.num_bytes(); ++i) bytes.bytes()[i] = static_cast<std::byte>(i * 131 >> 3);
  example.emplace("bytes", std::move(bytes));
  const std::string record = serialize_tf_example(example);
  const auto count = arguments.megabytes * 1'000'000 / static_cast<std::int64_t>(record.size()) + 1;
  for (std::int64_t i = 0; i < count; ++i) writer.write(record);
  const auto files = writer.finish();
  const double gigabytes = static_cast<double>(std::filesystem::file_size(files.front())) * 1e-9;
  const FeatureSchema schema = schema_of(example);
  const auto print = [&](const char* what, double seconds) {
    std::printf("%-44s %6.2f GB/s  %8.0f records/s\n", what, gigabytes / seconds, static_cast<double>(count) / seconds);
  };
  print("TFRecord, checksums verified", seconds_of(
                                            [&] {
                                              RecordReader reader(files.front());
                                              while (reader.next().has_value()) continue;
                                            },
                                            arguments.rounds));
  print("TFRecord, tf.train.Example to tensors", seconds_of(
                                                     [&] {
                                                       const auto stream = tfrecord_source(files, schema)->open();
                                                       while (stream->next().has_value()) continue;
                                                     },
                                                     arguments.rounds));
}

/// Feature vectors, as a network gives them for a data set: rows in the file's order, and in one of chance.
void read_rows(const Arguments& arguments) {
  const Folder folder;
  const std::string path = folder.path + "/rows.h5";
  const std::int64_t count = arguments.megabytes * 1'000'000 / arguments.row_bytes + 1;
  Hdf5Writer writer(path);
  const HostTensor some(Dtype::u8, {1024, arguments.row_bytes});
  for (std::int64_t row = 0; row < count; row += 1024) writer.append("rows", some);
  writer.finish();
  const auto source = hdf5_source(path, {{"row", "rows"}});
  const auto print = [&](const char* what, const Dataset& rows) {
    const double seconds = seconds_of(
        [&] {
          DatasetIterator iterator = rows.take(count).iterate();
          while (iterator.next()) continue;
        },
        arguments.rounds);
    std::printf("%-44s %6.2f GB/s  %8.0f rows/s\n", what,
                static_cast<double>(count * arguments.row_bytes) * 1e-9 / seconds,
                static_cast<double>(count) / seconds);
  };
  print("HDF5, rows in their order", Dataset::from(source));
  print("HDF5, rows shuffled", Dataset::from(source).shuffle({.seed = 1}));
}

void decode_images(const Arguments& arguments) {
  const ImageFolder folder = image_folder(arguments.images, {.image = {.min_side = arguments.min_side}});
  const std::int64_t count = folder.source->size();
  const double seconds = seconds_of(
      [&] {
        for (std::int64_t i = 0; i < count; ++i) folder.source->at(i);
      },
      arguments.rounds);
  std::printf("%-44s %6.0f images/s\n", text_of("pictures read and decoded, min_side ", arguments.min_side).c_str(),
              static_cast<double>(count) / seconds);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("What one core reads of TFRecord files, rows of HDF5 and pictures");
  app.add_option("--record-bytes", arguments.record_bytes, "Bytes of a record")->check(CLI::Range(1, 100'000'000));
  app.add_option("--megabytes", arguments.megabytes, "Bytes of the file, which stays in the page cache")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--rounds", arguments.rounds, "Readings, of which the median counts")->check(CLI::Range(1, 1000));
  app.add_option("--row-bytes", arguments.row_bytes, "Bytes of a row of HDF5")->check(CLI::Range(1, 100'000'000));
  app.add_option("--images", arguments.images, "A folder of pictures, one folder a class; without it none are decoded");
  app.add_option("--min-side", arguments.min_side, "Pixels that both sides of a picture keep")
      ->check(CLI::Range(0, 100'000));
  return run_program(app, argc, argv, [&] {
    read_records(arguments);
    read_rows(arguments);
    if (!arguments.images.empty()) decode_images(arguments);
    return 0;
  });
}

// How many pictures a second a pipeline delivers: JPEG or PNG files of a folder read, decoded, brought to one size and
// to [0, 1], and batched. A line `epoch` on standard input is answered by a line of JSON;
// bench/peers/compare_pictures.py lets it take turns with PyTorch's DataLoader.

#include <chrono>
#include <cstdint>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/program.h"
#include "data/dataset.h"
#include "data/maps.h"
#include "sources/image.h"
#include "sources/image_folder.h"

namespace {

using namespace sectionflow;
using Json = nlohmann::json;

struct Arguments {
  std::string images;
  std::int64_t batch = 64, side = 224;
  int threads = 2;
  bool whole_decoding = false;
};

/// Decoded, of one size, and in f32.
Dataset batches_of(const ImageFolder& folder, const Arguments& arguments) {
  const ImageOptions image{.min_side = arguments.whole_decoding ? 0 : arguments.side};
  const std::int64_t side = arguments.side;
  const auto decode = [image](Example example) {
    HostTensor& picture = example.at("image");
    picture = decode_image(picture, image);
    return example;
  };
  return Dataset::from(folder.source)
      .shuffle({.seed = 1})
      .map(MapFunction(decode, "decode"), {.threads = arguments.threads})
      .map(maps::resize({.height = side, .width = side}), {.threads = arguments.threads})
      .map(maps::normalize(), {.threads = arguments.threads})
      .batch({.size = arguments.batch})
      .prefetch();
}

Json epoch(DatasetIterator& iterator) {
  const auto begin = std::chrono::steady_clock::now();
  std::int64_t images = 0;
  while (const auto batch = iterator.next()) images += batch->at("label").num_elements();
  return {{"images", images},
          {"seconds", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()}};
}

int serve(const Arguments& arguments) {
  const Dataset batches = batches_of(image_folder(arguments.images, {.decode = false}), arguments);
  std::cout << Json{{"ready", true}, {"threads", arguments.threads}} << std::endl;
  for (std::string line; std::getline(std::cin, line) && line != "quit";) {
    Json answer = {{"error", "'" + line + "' is no command; wanted epoch or quit"}};
    if (line == "epoch") {
      DatasetIterator iterator = batches.iterate();
      answer = epoch(iterator);
    }
    std::cout << answer << std::endl;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Delivers batches of the pictures in a folder, an epoch for each line `epoch` that it reads");
  app.add_option("--images", arguments.images, "A folder of pictures, one folder a class")->required();
  app.add_option("--batch", arguments.batch, "Pictures in a batch")->check(CLI::PositiveNumber);
  app.add_option("--side", arguments.side, "Pixels of both sides of what is delivered")->check(CLI::Range(1, 10'000));
  app.add_option("--threads", arguments.threads, "Workers of each map")->check(CLI::Range(1, 1024));
  app.add_flag("--whole-decoding", arguments.whole_decoding, "Decode every JPEG at its full size");
  return run_program(app, argc, argv, [&] { return serve(arguments); });
}

#include "data/labeled_images.h"

#include <array>
#include <cstring>
#include <optional>
#include <system_error>

#include "data/idx.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;

constexpr int kMnistClasses = 10;
constexpr std::array<const char*, 4> kMnistFiles = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                                    "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

std::optional<fs::path> plain_or_compressed(const fs::path& folder, const std::string& name) {
  std::error_code ignored;
  for (const char* ending : {"", ".gz"}) {
    const fs::path path = folder / (name + ending);
    if (fs::is_regular_file(path, ignored)) return path;
  }
  return std::nullopt;
}

/// All four at once, so that one error names everything that is missing.
std::array<fs::path, 4> find_files(const fs::path& folder) {
  std::array<fs::path, 4> paths;
  std::string missing;
  for (std::size_t i = 0; i < kMnistFiles.size(); ++i) {
    const auto path = plain_or_compressed(folder, kMnistFiles[i]);
    if (path.has_value()) {
      paths[i] = *path;
    } else {
      missing += text_of(missing.empty() ? "" : ", ", kMnistFiles[i], "[.gz]");
    }
  }
  SF_CHECK(missing.empty(), DataError, "load_mnist: the folder '", folder.string(), "' lacks ", missing,
           hint("install the package dataset-fashion-mnist, which puts them into ", kFashionMnistFolder,
                ", or take images that synthetic_mnist() draws"));
  return paths;
}

HostTensor read_images(const fs::path& path) {
  const HostTensor raw = read_idx(path);
  const Shape& shape = raw.shape();
  SF_CHECK(raw.dtype() == Dtype::u8 && shape.rank() == 3 && raw.num_elements() > 0, DataError, "load_mnist: '",
           path.string(), "' holds ", raw.type().text(), "; wanted images u8[N,H,W] with no dimension of 0");
  HostTensor images(Dtype::u8, {shape[0], shape[1], shape[2], 1});
  std::memcpy(images.bytes(), raw.bytes(), raw.num_bytes());
  return images;
}

HostTensor read_labels(const fs::path& path, std::int64_t num_images) {
  const HostTensor raw = read_idx(path);
  SF_CHECK(raw.dtype() == Dtype::u8 && raw.shape() == Shape{num_images}, DataError, "load_mnist: '", path.string(),
           "' holds ", raw.type().text(), "; wanted one label for each of the ", num_images, " images, u8[", num_images,
           "]");
  HostTensor labels(Dtype::i32, raw.shape());
  const auto from = raw.values<std::uint8_t>();
  const auto to = labels.values<std::int32_t>();
  for (std::size_t i = 0; i < from.size(); ++i) {
    SF_CHECK(from[i] < kMnistClasses, DataError, "load_mnist: '", path.string(), "' has the label ", int{from[i]},
             " at image ", i, "; wanted 0 to ", kMnistClasses - 1);
    to[i] = from[i];
  }
  return labels;
}

LabeledImages load_part(const fs::path& images_path, const fs::path& labels_path, std::string name) {
  LabeledImages part;
  part.images = read_images(images_path);
  part.labels = read_labels(labels_path, part.images.shape()[0]);
  part.num_classes = kMnistClasses;
  part.name = std::move(name);
  return part;
}

std::string last_name(const fs::path& folder) {
  const fs::path name = folder.has_filename() ? folder.filename() : folder.parent_path().filename();
  return name.string();
}

TrainTest load(const fs::path& folder) {
  const auto [train_images, train_labels, test_images, test_labels] = find_files(folder);
  TrainTest data;
  data.train = load_part(train_images, train_labels, last_name(folder) + " train");
  data.test = load_part(test_images, test_labels, last_name(folder) + " test");
  const Shape& train = data.train.images.shape();
  const Shape& test = data.test.images.shape();
  SF_CHECK(train[1] == test[1] && train[2] == test[2], DataError, "load_mnist: '", train_images.string(),
           "' has images of ", train[1], " x ", train[2], " but '", test_images.string(), "' of ", test[1], " x ",
           test[2], "; wanted both from one data set");
  return data;
}

}  // namespace

TrainTest load_mnist(const std::filesystem::path& folder, Where where) {
  return call_at(where, [&] { return load(folder); });
}

}  // namespace sectionflow

#include "tools/labelled_source.h"

#include <cstring>
#include <utility>

#include "base/error.h"
#include "data/cifar.h"
#include "data/labeled_images.h"
#include "sources/image_folder.h"
#include "tools/command.h"

namespace sectionflow {
namespace {

/// Images that lie in memory, one at a time. Owns: them.
class ImagesInMemory final : public IndexedSource {
 public:
  explicit ImagesInMemory(LabeledImages images) : images_(std::move(images)) {}

  std::string name() const override { return images_.name; }
  std::int64_t size() const override { return images_.labels.num_elements(); }
  Example at(std::int64_t index) const override {
    SF_CHECK(index >= 0 && index < size(), ArgumentError, name(), ": example ", index, " of ", size());
    const auto row = static_cast<std::size_t>(index);
    const Shape& shape = images_.images.shape();
    HostTensor image(Dtype::u8, {shape[1], shape[2], shape[3]});
    if (image.num_bytes() > 0) {
      std::memcpy(image.bytes(), images_.images.bytes() + row * image.num_bytes(), image.num_bytes());
    }
    Example example;
    example.emplace("image", std::move(image));
    example.emplace("label", HostTensor::scalar<std::int32_t>(images_.labels.values<std::int32_t>()[row]));
    return example;
  }

 private:
  LabeledImages images_;
};

}  // namespace

DataArgument data_argument(const std::string& text, const std::vector<std::string>& kinds, const std::string& what) {
  const std::size_t colon = text.find(':');
  DataArgument data{.kind = text.substr(0, colon)};
  if (colon != std::string::npos) data.path = text.substr(colon + 1);
  check_known(data.kind, kinds, what + ": '" + data.kind + "' is no kind of data");
  return data;
}

const std::vector<std::string>& labelled_kinds() {
  static const std::vector<std::string> kinds = {"mnist", "cifar10", "cifar100", "images"};
  return kinds;
}

std::vector<LabelledPart> labelled_parts(const DataArgument& data, int channels) {
  SF_CHECK(!data.path.empty() || data.kind == "mnist", ArgumentError, data.kind, " lies in a folder; got none",
           hint("write ", data.kind, ":FOLDER"));
  if (data.kind == "mnist") {
    TrainTest parts = load_mnist(data.path.empty() ? std::filesystem::path(kFashionMnistFolder) : data.path);
    return {{"train", std::make_shared<ImagesInMemory>(std::move(parts.train))},
            {"test", std::make_shared<ImagesInMemory>(std::move(parts.test))}};
  }
  if (data.kind == "images") {
    ImageFolderOptions options{.decode = channels > 0};
    if (channels > 0) options.image.channels = channels;
    return {{"all", image_folder(data.path, options).source}};
  }
  const CifarData parts = load_cifar(data.kind == "cifar10" ? Cifar::cifar10 : Cifar::cifar100, data.path);
  return {{"train", parts.train}, {"test", parts.test}};
}

}  // namespace sectionflow

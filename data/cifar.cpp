#include "data/cifar.h"

#include <algorithm>
#include <array>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "data/file_at.h"
#include "data/source_identity.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSide = 32, kPlane = kSide * kSide, kChannels = 3;

struct Layout {
  const char* name;
  std::size_t num_labels;
  std::array<int, 2> classes;  // of each label; the last one is "label"
  std::size_t record_bytes() const { return num_labels + kChannels * kPlane; }
};
const Layout& layout_of(Cifar kind) {
  static const Layout cifar10 = {"CIFAR-10", 1, {10, 0}}, cifar100 = {"CIFAR-100", 2, {20, 100}};
  return kind == Cifar::cifar10 ? cifar10 : cifar100;
}

class CifarSource final : public IndexedSource {
 public:
  CifarSource(const Layout& layout, const std::vector<fs::path>& paths)
      : layout_(layout), paths_(paths), name_(text_of(layout.name, " '", paths.front().string(), "'")) {
    if (paths.size() > 1) name_ += text_of(" and ", paths.size() - 1, " more");
    for (const fs::path& path : paths) {
      auto& file = files_.emplace_back(std::make_unique<FileAt>(path, std::string(layout.name) + " file"));
      SF_CHECK(file->num_bytes() % layout.record_bytes() == 0, DataError, file->where(), "has ", file->num_bytes(),
               " bytes, not whole records of ", layout.record_bytes(),
               hint("is it a binary file of ", layout.name, ", and the download complete?"));
      size_ += static_cast<std::int64_t>(file->num_bytes() / layout.record_bytes());
      ends_.push_back(size_);
    }
  }

  std::string name() const override { return name_; }
  std::string identity() const override {
    return identity_.get([&] { return text_of(layout_.name, " ", identity_of_files(paths_)); });
  }
  std::int64_t size() const override { return size_; }

  Example at(std::int64_t index) const override {
    SF_CHECK(index >= 0 && index < size_, ArgumentError, name_, ": example ", index, " of ", size_, " was asked for");
    const auto which = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
    const auto in_file = static_cast<std::uint64_t>(index - (which == 0 ? 0 : ends_[which - 1]));
    const FileAt& file = *files_[which];
    std::array<char, 2 + kChannels * kPlane> record{};
    const std::uint64_t offset = in_file * layout_.record_bytes();
    file.read_at(offset, record.data(), layout_.record_bytes());

    Example example;
    for (std::size_t i = 0; i < layout_.num_labels; ++i) {
      const int label = static_cast<unsigned char>(record[i]);
      SF_CHECK(label < layout_.classes[i], DataError, file.where(), "record ", in_file, " at byte ", offset,
               " has the label ", label, "; wanted 0 to ", layout_.classes[i] - 1, hint("fetch the file again"));
      example.emplace(i + 1 == layout_.num_labels ? "label" : "coarse_label", HostTensor::scalar<std::int32_t>(label));
    }
    HostTensor image(Dtype::u8, {kSide, kSide, kChannels});
    const char* planes = record.data() + layout_.num_labels;
    std::uint8_t* to = image.values<std::uint8_t>().data();
    for (std::size_t pixel = 0; pixel < kPlane; ++pixel) {
      for (std::size_t channel = 0; channel < kChannels; ++channel)
        *to++ = static_cast<std::uint8_t>(planes[channel * kPlane + pixel]);
    }
    example.emplace("image", std::move(image));
    return example;
  }

 private:
  const Layout& layout_;
  std::vector<fs::path> paths_;
  std::string name_;
  TextOnce identity_;
  std::vector<std::unique_ptr<FileAt>> files_;
  std::vector<std::int64_t> ends_;  // of each file, the number of the first example behind it
  std::int64_t size_ = 0;
};

std::vector<fs::path> paths_in(const fs::path& folder, const std::vector<std::string>& names) {
  std::vector<fs::path> paths;
  for (const std::string& name : names) paths.push_back(folder / name);
  return paths;
}

}  // namespace

std::shared_ptr<const IndexedSource> cifar_source(Cifar kind, const std::vector<fs::path>& files) {
  SF_CHECK(!files.empty(), ArgumentError, "cifar_source: no files; wanted one at least");
  return std::make_shared<CifarSource>(layout_of(kind), files);
}

CifarData load_cifar(Cifar kind, const fs::path& folder) {
  std::vector<std::string> train = {"train.bin"}, test = {"test.bin"};
  if (kind == Cifar::cifar10) {
    train = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"};
    test = {"test_batch.bin"};
  }
  std::string missing;
  for (const auto* names : {&train, &test}) {
    for (const std::string& name : *names) {
      std::error_code ignored;
      if (!fs::is_regular_file(folder / name, ignored)) missing += (missing.empty() ? "" : ", ") + name;
    }
  }
  SF_CHECK(
      missing.empty(), DataError, "load_cifar: the folder '", folder.string(), "' lacks ", missing,
      hint("unpack the archive of ", layout_of(kind).name, "'s binary version, and name the folder with its files"));
  return {cifar_source(kind, paths_in(folder, train)), cifar_source(kind, paths_in(folder, test))};
}

}  // namespace sectionflow

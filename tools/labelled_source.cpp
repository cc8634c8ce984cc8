#include "tools/labelled_source.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstring>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/whole_file.h"
#include "data/cifar.h"
#include "data/labeled_images.h"
#include "data/permutation.h"
#include "data/source_identity.h"
#include "data/tensor_hashes.h"
#include "sources/image_folder.h"
#include "tools/command.h"

namespace sectionflow {
namespace {

/// Images that lie in memory, one at a time. Owns: them.
class ImagesInMemory final : public IndexedSource {
 public:
  explicit ImagesInMemory(LabeledImages images) : images_(std::move(images)) {}

  std::string name() const override { return images_.name; }
  std::string identity() const override {
    return identity_.get([&] {
      return text_of("images in memory ", tensor_hash(images_.images.view()), " ", tensor_hash(images_.labels.view()));
    });
  }
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
  TextOnce identity_;
};

/// The names of classes in a file beside the data, one a line; none where it is absent or has not one for each class.
ClassNames names_in_lines(const std::filesystem::path& path, std::size_t count) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return {};
  std::istringstream text(read_whole_file(path, 1_MiB, "names of classes"));
  std::vector<std::string> names;
  for (std::string name; std::getline(text, name);) {
    if (name.ends_with('\r')) name.pop_back();
    if (!name.empty()) names.push_back(name);
  }
  return names.size() == count ? class_names_of(names) : ClassNames();
}

bool is_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

}  // namespace

bool has_pictures(const std::filesystem::path& folder) {
  constexpr std::array<const char*, 3> kEndings = {".jpg", ".jpeg", ".png"};
  std::error_code failed;
  for (auto entry = std::filesystem::directory_iterator(folder, failed);
       !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed)) {
    std::string ending = entry->path().extension().string();
    std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
    if (std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end()) return true;
  }
  return false;
}

std::vector<std::string> picture_folders_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  for (auto entry = std::filesystem::directory_iterator(folder, failed);
       !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with('.') || !is_folder(entry->path())) continue;
    if (has_pictures(entry->path())) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<PictureFolder> picture_parts(const std::filesystem::path& path) {
  // Folders of these names that have pictures and no folders of them are classes.
  const auto is_part = [&](const char* name) {
    const std::filesystem::path part = path / name;
    return is_folder(part) && (!has_pictures(part) || !picture_folders_in(part).empty());
  };
  const char* const validation = is_part("validation") ? "validation" : "val";
  if (!is_part("train") || (!is_part(validation) && !is_part("test"))) return {{"all", path}};
  std::vector<PictureFolder> parts = {{"train", path / "train"}};
  if (is_part(validation)) parts.push_back({"validation", path / validation});
  if (is_part("test")) parts.push_back({"test", path / "test"});
  return parts;
}

namespace {

LabelledPart part_of_pictures(const std::string& name, const std::filesystem::path& path, int channels) {
  ImageFolderOptions options{.decode = channels > 0, .check = channels == 0};
  if (channels > 0) options.image.channels = channels;
  const ImageFolder folder = image_folder(path, options);
  return {name, folder.source, class_names_of(folder.classes)};
}

/// Throws: DataError where two parts of a data set number their classes differently.
void check_same_classes(const std::filesystem::path& path, const LabelledPart& one, const LabelledPart& other) {
  const auto missing = [](const ClassNames& names, const ClassNames& others) {
    return std::find_if(names.begin(), names.end(), [&](const auto& name) {
      const auto found = others.find(name.first);
      return found == others.end() || found->second != name.second;
    });
  };
  for (const auto& [part, beside] : {std::pair(&one, &other), std::pair(&other, &one)}) {
    const auto found = missing(part->classes, beside->classes);
    SF_CHECK(found == part->classes.end(), DataError, "images: '", path.string(), "': class ", found->first, " of ",
             part->source->name(), " is '", found->second, "', and not that of ", beside->source->name(),
             hint("have a folder of the same name for each class in both, be it empty in one of them"));
  }
}

std::filesystem::path folder_of(const DataArgument& data) {
  return data.kind == "mnist" && data.path.empty() ? std::filesystem::path(kFashionMnistFolder) : data.path;
}

/// Says which folders with pictures are none of the parts.
void warn_of_folders_beside(const std::filesystem::path& path, const std::vector<PictureFolder>& parts) {
  std::vector<std::string> beside;
  for (const std::string& name : picture_folders_in(path)) {
    if (std::none_of(parts.begin(), parts.end(), [&](const auto& part) { return part.path == path / name; })) {
      beside.push_back(name);
    }
  }
  const bool is_read =
      std::any_of(parts.begin(), parts.end(), [&](const auto& part) { return part.path == path / "val"; });
  if (!is_read && !picture_folders_in(path / "val").empty()) beside.emplace_back("val");
  if (beside.empty()) return;
  std::string names;
  for (const PictureFolder& part : parts) names += (names.empty() ? "'" : ", '") + part.path.filename().string() + "'";
  warn_of_data(text_of("images: '", path.string(), "' is read by its parts, ", names,
                       "; left out are the folders of pictures beside them: ", identity_of_names(beside),
                       "; move them into the parts, or elsewhere"));
}

/// A folder with one a class; or with "train" and others to evaluate on, each with one a class.
std::vector<LabelledPart> parts_of_pictures(const std::filesystem::path& path, int channels) {
  const std::vector<PictureFolder> folders = picture_parts(path);
  if (folders.size() > 1) warn_of_folders_beside(path, folders);
  std::vector<LabelledPart> parts;
  for (const PictureFolder& folder : folders) {
    parts.push_back(part_of_pictures(folder.name, folder.path, channels));
    check_same_classes(path, parts.front(), parts.back());
  }
  return parts;
}

/// Those examples of a source that one part of a split has.
class ChosenExamples final : public IndexedSource {
 public:
  ChosenExamples(std::shared_ptr<const IndexedSource> source, std::vector<std::uint32_t> chosen)
      : source_(std::move(source)), chosen_(std::move(chosen)) {}

  std::string name() const override { return source_->name(); }
  std::string identity() const override { return source_->identity(); }
  std::int64_t size() const override { return static_cast<std::int64_t>(chosen_.size()); }
  Example at(std::int64_t index) const override {
    SF_CHECK(index >= 0 && index < size(), ArgumentError, name(), ": example ", index, " of ", size());
    return source_->at(chosen_[static_cast<std::size_t>(index)]);
  }

 private:
  std::shared_ptr<const IndexedSource> source_;
  std::vector<std::uint32_t> chosen_;
};

}  // namespace

double share_named(const std::string& text) {
  double percent = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, percent);
  SF_CHECK(error == std::errc() && stop + 1 == end && *stop == '%' && percent > 0 && percent < 100, ArgumentError,
           "--validation ", text, "; wanted a share above 0% and below 100%, as in 10%");
  return percent / 100;
}

std::vector<LabelledPart> split_part(const LabelledPart& part, double share, std::uint64_t seed) {
  const std::int64_t size = part.source->size();
  SF_CHECK(size >= 2 && size <= kMaxPermuted, ArgumentError, "--validation: ", part.source->name(), " has ", size,
           " examples; wanted 2 at least, and 2^32 at most");
  SplitNumbers numbers = split_numbers(size, share, seed);
  return {{"train", std::make_shared<ChosenExamples>(part.source, std::move(numbers.train)), part.classes},
          {"validation", std::make_shared<ChosenExamples>(part.source, std::move(numbers.validation)), part.classes}};
}

ReadablePart readable_part(const LabelledPart& part) {
  ReadablePart readable{.part = part};
  std::vector<std::uint32_t> chosen;
  for (std::int64_t i = 0; i < std::min(part.source->size(), kMaxPermuted); ++i) {
    try {
      (void)part.source->at(i);
      chosen.push_back(static_cast<std::uint32_t>(i));
    } catch (const DataError& error) {
      if (error.code() == ErrorCode::unreadable_now || error.code() == ErrorCode::missing_library) throw;
      ++readable.skipped;
      readable.last_skipped = error.message();
    }
  }
  SF_CHECK(!chosen.empty(), DataError, part.source->name(), ": nothing of it can be read; the last as ",
           readable.last_skipped);
  if (readable.skipped > 0) readable.part.source = std::make_shared<ChosenExamples>(part.source, std::move(chosen));
  return readable;
}

DataArgument data_argument(const std::string& text, const std::vector<std::string>& kinds, const std::string& what) {
  const std::size_t colon = text.find(':');
  DataArgument data{.kind = text.substr(0, colon)};
  if (colon != std::string::npos) data.path = text.substr(colon + 1);
  const std::string wrong = what + ": '" + data.kind + "' is no kind of data";
  const bool is_kind = std::find(kinds.begin(), kinds.end(), data.kind) != kinds.end();
  SF_CHECK(is_kind || colon != std::string::npos || text.empty() || !is_folder(text), ArgumentError, wrong,
           "; it is a folder", hint("say of what, as in images:", text, "; there are ", joined(kinds)));
  check_known(data.kind, kinds, wrong);
  return data;
}

std::vector<NamedPath> places_of_data(const std::string& option, const DataArgument& data) {
  const std::filesystem::path path = folder_of(data);
  std::error_code ignored;
  const bool is_file =
      data.kind == "npy" || data.kind == "safetensors" || std::filesystem::is_regular_file(path, ignored);
  if (path.empty() || is_file) return {{option, path}};
  if (data.kind == "images") return {{option, path, Extent::everything}};
  std::vector<NamedPath> places = {{option, path, Extent::files}};
  if (data.kind != "lmdb") return places;
  for (const char* part : {"train", "validation", "test"}) places.push_back({option, path / part, Extent::everything});
  return places;
}

const std::vector<std::string>& labelled_kinds() {
  static const std::vector<std::string> kinds = {"mnist", "cifar10", "cifar100", "images"};
  return kinds;
}

std::vector<LabelledPart> labelled_parts(const DataArgument& data, int channels) {
  SF_CHECK(!data.path.empty() || data.kind == "mnist", ArgumentError, data.kind, " lies in a folder; got none",
           hint("write ", data.kind, ":FOLDER"));
  if (data.kind == "mnist") {
    TrainTest parts = load_mnist(folder_of(data));
    return {{"train", std::make_shared<ImagesInMemory>(std::move(parts.train)), {}},
            {"test", std::make_shared<ImagesInMemory>(std::move(parts.test)), {}}};
  }
  if (data.kind == "images") return parts_of_pictures(data.path, channels);
  const bool has_ten = data.kind == "cifar10";
  const CifarData parts = load_cifar(has_ten ? Cifar::cifar10 : Cifar::cifar100, data.path);
  const ClassNames names =
      names_in_lines(data.path / (has_ten ? "batches.meta.txt" : "fine_label_names.txt"), has_ten ? 10 : 100);
  return {{"train", parts.train, names}, {"test", parts.test, names}};
}

}  // namespace sectionflow

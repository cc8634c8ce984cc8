#include "sources/image_folder.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/whole_file.h"
#include "data/file_at.h"
#include "data/source_identity.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxListBytes = 1_GiB;

class ImageFiles final : public IndexedSource {
 public:
  ImageFiles(fs::path folder, std::vector<std::string> classes, std::vector<std::string> files,
             std::vector<std::int32_t> labels, ImageFolderOptions options)
      : folder_(std::move(folder)),
        classes_(std::move(classes)),
        files_(std::move(files)),
        labels_(std::move(labels)),
        options_(options) {}

  std::string name() const override { return text_of("images in '", folder_.string(), "'"); }
  std::string identity() const override {
    return identity_.get([&] {
      std::string all;
      for (std::size_t i = 0; i < files_.size(); ++i) {
        all += text_of(files_[i], '\0', size_for_identity(folder_ / files_[i]), " ", labels_[i], '\0');
      }
      return text_of("images of ", classes_.empty() ? "a list" : identity_of_names(classes_), " (names and sizes ",
                     identity_hash(all), ")");
    });
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  Example at(std::int64_t index) const override {
    SF_CHECK(index >= 0 && index < size(), ArgumentError, name(), ": example ", index, " of ", size(),
             " was asked for");
    const fs::path path = folder_ / files_[static_cast<std::size_t>(index)];
    const std::string bytes = read_whole_file(path, options_.max_file_bytes, "image file");
    const std::string where = "image file '" + path.string() + "': ";
    if (!options_.decode && options_.check) check_whole(bytes, where);
    Example example;
    example.emplace("image", options_.decode ? decode_image(bytes, options_.image, where) : as_tensor(bytes));
    example.emplace("label", HostTensor::scalar<std::int32_t>(labels_[static_cast<std::size_t>(index)]));
    return example;
  }

 private:
  void check_whole(const std::string& bytes, const std::string& where) const {
    // Damage shows in the smallest picture of a JPEG, too.
    ImageOptions smallest = options_.image;
    smallest.min_side = 1;
    try {
      (void)decode_image(bytes, smallest, where);
    } catch (const DataError& error) {
      // What nobody can decode here may be decoded elsewhere.
      if (error.code() != ErrorCode::missing_library) throw;
    }
  }
  static HostTensor as_tensor(const std::string& bytes) {
    HostTensor tensor(Dtype::u8, {static_cast<std::int64_t>(bytes.size())});
    if (!bytes.empty()) std::memcpy(tensor.bytes(), bytes.data(), bytes.size());
    return tensor;
  }

  fs::path folder_;
  std::vector<std::string> classes_, files_;
  std::vector<std::int32_t> labels_;
  ImageFolderOptions options_;
  TextOnce identity_;
};

/// ".jpg" of "a.JPG".
std::string ending_of(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return ending;
}

bool is_image_name(const fs::path& path) {
  const std::string ending = ending_of(path);
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

/// The names in a folder of what `is_wanted`, in order. What begins with a dot is hidden there by other programs: their
/// caches, and what they note beside a picture.
template <class Wanted>
std::vector<std::string> names_in(const fs::path& folder, const Wanted& is_wanted) {
  std::vector<std::string> names;
  std::error_code failed;
  for (auto entry = fs::directory_iterator(folder, failed); !failed && entry != fs::directory_iterator();
       entry.increment(failed)) {
    std::string name = entry->path().filename().string();
    if (!name.starts_with('.') && is_wanted(*entry)) names.push_back(std::move(name));
  }
  SF_CHECK(!failed, DataError, "image_folder: '", folder.string(), "' cannot be read (", failed.message(), ")",
           hint("is the path right, and may this process read it?"));
  std::sort(names.begin(), names.end());
  return names;
}

/// What a training of ours has saved in a folder that is called "step-3", or "step-3.tmp" where a kill has left it.
bool is_checkpoint(const fs::path& folder) {
  constexpr std::string_view kStep = "step-";
  const std::string name = folder.filename().string();
  const bool is_step = name.starts_with(kStep) && name.size() > kStep.size() && std::isdigit(name[kStep.size()]) != 0;
  if (!is_step) return false;
  std::error_code failed;
  if (fs::is_regular_file(folder / "variables.safetensors", failed)) return true;
  std::string beginning(256, '\0');
  try {
    const FileAt manifest(folder / "manifest.json", "image_folder");
    beginning.resize(std::min<std::uint64_t>(manifest.num_bytes(), beginning.size()));
    manifest.read_at(0, beginning.data(), beginning.size());
  } catch (const DataError&) {
    return false;  // none is there
  }
  return beginning.find("sectionflow-checkpoint") != std::string::npos;
}

/// The folders in one, but those that are checkpoints.
std::vector<std::string> classes_in(const fs::path& folder) {
  std::error_code ignored;
  std::vector<std::string> classes =
      names_in(folder, [&](const fs::directory_entry& entry) { return entry.is_directory(ignored); });
  std::vector<std::string> checkpoints;
  for (const std::string& name : classes) {
    if (is_checkpoint(folder / name)) checkpoints.push_back(name);
  }
  if (checkpoints.empty()) return classes;
  warn_of_data(text_of("image_folder: '", folder.string(), "': checkpoints of a training, which are no classes: ",
                       identity_of_names(checkpoints), "; save them to another folder"));
  std::erase_if(classes, [&](const std::string& name) {
    return std::find(checkpoints.begin(), checkpoints.end(), name) != checkpoints.end();
  });
  return classes;
}

/// Endings of pictures that are none of JPEG or PNG.
bool is_foreign_image_name(const fs::path& path) {
  static constexpr std::array<std::string_view, 11> kEndings = {".gif",  ".bmp", ".webp", ".tif", ".tiff", ".heic",
                                                                ".avif", ".ppm", ".pgm",  ".pbm", ".pnm"};
  return std::find(kEndings.begin(), kEndings.end(), ending_of(path)) != kEndings.end();
}

/// Pictures of kinds that are not read: how many, and the first by name.
struct ForeignImages {
  std::int64_t count = 0;
  std::string first{};

  void note(const fs::path& path) {
    if (!is_foreign_image_name(path)) return;
    const std::string name = (path.parent_path().filename() / path.filename()).string();
    if (count++ == 0 || name < first) first = name;
  }
  std::string text() const { return count == 0 ? "" : text_of(count, " of other kinds, as '", first, "'"); }
};

constexpr const char* kConvert =
    "convert pictures of other kinds to PNG, as ImageMagick does: mogrify -format png *.gif";

bool has_images(const fs::path& folder) {
  std::error_code failed;
  for (auto entry = fs::directory_iterator(folder, failed); !failed && entry != fs::directory_iterator();
       entry.increment(failed)) {
    if (is_image_name(entry->path())) return true;
  }
  return false;
}

/// Pictures that are no files of a class's folder itself: beside the folders of classes, further down, and links to
/// nothing.
std::vector<std::string> misplaced_in(const fs::path& folder, const std::vector<std::string>& classes) {
  std::error_code ignored;
  std::vector<std::string> misplaced =
      names_in(folder, [&](const fs::directory_entry& entry) {
        return is_image_name(entry.path()) && !entry.is_directory(ignored);
      });
  for (const std::string& name : classes) {
    const auto found = names_in(folder / name, [&](const fs::directory_entry& entry) {
      if (entry.is_directory(ignored)) return has_images(entry.path());
      return is_image_name(entry.path()) && !entry.is_regular_file(ignored);
    });
    for (const std::string& inner : found) misplaced.push_back((fs::path(name) / inner).string());
  }
  return misplaced;
}

/// Where the folders have no pictures and folders in them have: which of them are perhaps meant, the first two.
std::string meant_folders(const fs::path& folder, const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 2;
  std::vector<std::string> meant;
  for (const std::string& name : names) {
    std::error_code failed;
    bool is_meant = false;
    for (auto entry = fs::directory_iterator(folder / name, failed); !failed && entry != fs::directory_iterator();
         entry.increment(failed)) {
      is_meant = is_meant || has_images(entry->path());
    }
    if (is_meant && meant.size() < kMost) meant.push_back("'" + (folder / name).string() + "'");
  }
  if (meant.empty()) return {};
  return text_of("; those in them have: meant ", meant.front(), meant.size() > 1 ? " or " + meant.back() : "", "?");
}

/// The label at the end of a line, and the path before it.
std::pair<std::string, std::int32_t> file_and_label(std::string_view line, const std::string& where) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!line.empty() && is_space(line.back())) line.remove_suffix(1);
  std::size_t begin = line.size();
  while (begin > 0 && !is_space(line[begin - 1])) --begin;
  std::int32_t label = -1;
  const auto [end, failed] = std::from_chars(line.data() + begin, line.data() + line.size(), label);
  const bool is_label = failed == std::errc() && end == line.data() + line.size() && label >= 0;
  while (begin > 0 && is_space(line[begin - 1])) --begin;
  SF_CHECK(is_label && begin > 0, DataError, where, "wanted a file, white space, and a label of 0 or more");
  const fs::path file(std::string(line.substr(0, begin)));
  const bool leaves = std::any_of(file.begin(), file.end(), [](const fs::path& part) { return part == ".."; });
  SF_CHECK(!file.is_absolute() && !leaves, DataError, where, "the file's path is absolute or has '..' in it",
           hint("name files below the folder that the list is read for"));
  return {file.string(), label};
}

}  // namespace

ImageFolder image_folder(const fs::path& folder, ImageFolderOptions options) {
  check_path(folder, "image_folder");
  ImageFolder found;
  std::error_code ignored;
  found.classes = classes_in(folder);
  SF_CHECK(!found.classes.empty(), DataError, "image_folder: '", folder.string(),
           "' has no folders; wanted one for each class", hint("image_list reads a list of files and labels"));
  std::vector<std::int32_t> labels;
  std::vector<std::string> empty;
  ForeignImages others;
  for (std::size_t label = 0; label < found.classes.size(); ++label) {
    const auto names = names_in(folder / found.classes[label], [&](const fs::directory_entry& entry) {
      others.note(entry.path());
      return is_image_name(entry.path()) && entry.is_regular_file(ignored);
    });
    if (names.empty()) empty.push_back(found.classes[label]);
    for (const std::string& name : names) {
      found.files.push_back((fs::path(found.classes[label]) / name).string());
      labels.push_back(static_cast<std::int32_t>(label));
    }
  }
  const std::string foreign = others.text();
  SF_CHECK(!labels.empty(), DataError, "image_folder: the ", found.classes.size(), " folders in '", folder.string(),
           "' have no files .jpg, .jpeg or .png", foreign.empty() ? "" : ", but " + foreign,
           meant_folders(folder, found.classes),
           hint(foreign.empty() ? "names that begin with a dot are passed over" : kConvert));
  if (!foreign.empty()) {
    warn_of_data(text_of("image_folder: '", folder.string(), "': left out ", foreign, "; ", kConvert));
  }
  if (const auto misplaced = misplaced_in(folder, found.classes); !misplaced.empty()) {
    warn_of_data(text_of("image_folder: '", folder.string(), "': left out, as no pictures in a folder of a class: ",
                         identity_of_names(misplaced), "; move them into one"));
  }
  if (!empty.empty()) {
    warn_of_data(text_of("image_folder: '", folder.string(), "': classes without a picture: ", identity_of_names(empty),
                         "; each keeps its label all the same"));
  }
  found.source = std::make_shared<ImageFiles>(folder, found.classes, found.files, std::move(labels), options);
  return found;
}

ImageFolder image_list(const fs::path& list, const fs::path& folder, ImageFolderOptions options) {
  const std::string text = read_whole_file(list, kMaxListBytes, "image_list");
  check_path(folder, "image_list");
  ImageFolder found;
  std::vector<std::int32_t> labels;
  std::string_view left = text;
  for (std::int64_t line = 1; !left.empty(); ++line) {
    const std::size_t end = std::min(left.find('\n'), left.size());
    const std::string_view content = left.substr(0, end);
    left.remove_prefix(std::min(end + 1, left.size()));
    if (content.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    auto [file, label] = file_and_label(content, text_of("image_list: '", list.string(), "': line ", line, ": "));
    found.files.push_back(std::move(file));
    labels.push_back(label);
  }
  SF_CHECK(!labels.empty(), DataError, "image_list: '", list.string(), "' names no file");
  found.source = std::make_shared<ImageFiles>(folder, found.classes, found.files, std::move(labels), options);
  return found;
}

}  // namespace sectionflow

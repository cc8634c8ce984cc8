#include "tools/file_kind.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/whole_file.h"
#include "data/byte_input.h"
#include "data/file_at.h"
#include "data/tfrecord.h"
#include "tools/command.h"
#include "tools/labelled_source.h"
#include "train/checkpoint_folder.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

struct NamedKind {
  FileKind kind;
  const char* name;
};
constexpr NamedKind kKinds[] = {{FileKind::checkpoint, "checkpoint"},
                                {FileKind::checkpoint_folder, "checkpoints"},
                                {FileKind::safetensors, "safetensors"},
                                {FileKind::graph, "graph"},
                                {FileKind::profile, "profile"},
                                {FileKind::plan, "plan"},
                                {FileKind::events, "events"},
                                {FileKind::tfrecord, "tfrecord"},
                                {FileKind::npy, "npy"},
                                {FileKind::idx, "idx"},
                                {FileKind::npz, "npz"},
                                {FileKind::hdf5, "hdf5"},
                                {FileKind::lmdb, "lmdb"},
                                {FileKind::lmdb_parts, "lmdb_parts"},
                                {FileKind::event_files, "event_files"},
                                {FileKind::tfrecord_files, "tfrecord_files"},
                                {FileKind::images, "images"}};

[[noreturn]] void refuse(const fs::path& path, const std::string& what, const std::string& advice) {
  throw DataError(error_text_of("inspect: '", path.string(), "' ", what, hint(advice)), ErrorCode::unknown_file_kind);
}

std::string advice_of_kinds() {
  const std::vector<std::string> names = kind_names();
  return "inspect shows " + joined(names) + "; --kind says which it is meant to be";
}

/// The most of a file that is looked at: more than any format needs.
constexpr std::size_t kLookedAt = 4096;

std::string beginning_of(const fs::path& path) {
  const FileAt file(path, "inspect: file");
  std::string bytes(static_cast<std::size_t>(std::min<std::uint64_t>(file.num_bytes(), kLookedAt)), '\0');
  file.read_at(0, bytes.data(), bytes.size());
  return bytes;
}

std::uint64_t number_at(std::string_view bytes, std::size_t at, std::size_t num_bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < num_bytes; ++i) {
    number |= std::uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return number;
}

bool is_safetensors(std::string_view bytes, std::uint64_t file_bytes) {
  if (bytes.size() < 9 || bytes[8] != '{') return false;
  const std::uint64_t header = number_at(bytes, 0, 8);
  return header >= 2 && header <= file_bytes - 8;
}

/// The "format" that a JSON file of ours tells near its beginning; empty without.
std::string_view json_format(std::string_view bytes) {
  const std::size_t begin = bytes.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos || bytes[begin] != '{') return {};
  const std::size_t member = bytes.find("\"format\""sv, begin);
  if (member == std::string_view::npos) return {};
  const std::size_t open = bytes.find('"', member + 8);
  if (open == std::string_view::npos) return {};
  const std::size_t close = bytes.find('"', open + 1);
  return close == std::string_view::npos ? ""sv : bytes.substr(open + 1, close - open - 1);
}

bool is_idx(std::string_view bytes) {
  constexpr std::array<unsigned char, 6> types = {0x08, 0x09, 0x0b, 0x0c, 0x0d, 0x0e};
  return bytes.size() >= 4 && bytes[0] == 0 && bytes[1] == 0 &&
         std::find(types.begin(), types.end(), static_cast<unsigned char>(bytes[2])) != types.end() && bytes[3] >= 1 &&
         bytes[3] <= 8;
}

/// Whether the first length of a file of records has its checksum.
bool begins_as_records(std::string_view bytes) {
  return bytes.size() >= 12 && masked_crc32c(bytes.substr(0, 8)) == number_at(bytes, 8, 4);
}

bool is_event(std::string_view record) {
  // The first event has the time, as field 1, and the file's version, as field 3.
  return record.substr(0, 64).find("brain.Event:"sv) != std::string_view::npos;
}

/// Records, of whatever they hold, or nothing where the file is none of records.
std::optional<FileKind> kind_of_records(const fs::path& path, std::string_view bytes) {
  if (begins_as_records(bytes)) return is_event(bytes.substr(12)) ? FileKind::events : FileKind::tfrecord;
  const bool is_gzip = begins_gzip(bytes);
  if (!is_gzip && !begins_zlib(bytes)) return std::nullopt;
  try {
    // The length of the first record and its checksum, however long the record is.
    const auto input = expanded(open_file(path, "inspect: file"), is_gzip ? Container::gzip : Container::zlib,
                                text_of("inspect: '", path.string(), "': "));
    std::string head(12, '\0');
    head.resize(input->read(head.data(), head.size()));
    return begins_as_records(head) ? std::optional(FileKind::tfrecord) : std::nullopt;
  } catch (const DataError&) {
    return std::nullopt;  // compressed, and not records
  }
}

/// What a name claims of a file whose bytes say nothing.
std::optional<FileKind> kind_of_name(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name.ends_with(".safetensors")) return FileKind::safetensors;
  if (name.ends_with(".tfrecord") || name.ends_with(".tfrecords")) return FileKind::tfrecord;
  if (name.find(".tfevents.") != std::string::npos) return FileKind::events;
  if (name.ends_with(".npy")) return FileKind::npy;
  if (name.ends_with(".npz")) return FileKind::npz;
  if (name.ends_with(".h5") || name.ends_with(".hdf5")) return FileKind::hdf5;
  if (name.ends_with(".mdb")) return FileKind::lmdb;
  if (name.ends_with("-ubyte") || name.ends_with("-ubyte.gz") || name.ends_with(".idx")) return FileKind::idx;
  return std::nullopt;
}

/// What is known of files that others show.
const char* foreign_kind(std::string_view bytes) {
  if (bytes.starts_with("\x89PNG\r\n\x1a\n"sv)) return "is a PNG picture";
  if (bytes.starts_with("\xff\xd8\xff"sv)) return "is a JPEG picture";
  if (bytes.starts_with("GIF8"sv)) return "is a GIF picture";
  if (bytes.starts_with("\x1f\x8b"sv)) return "is compressed by gzip, and holds neither records nor an IDX tensor";
  if (bytes.starts_with("\x80\x02"sv)) return "is a pickle of Python's, which nothing here executes";
  if (bytes.find_first_not_of(" \t\r\n") != std::string_view::npos &&
      bytes[bytes.find_first_not_of(" \t\r\n")] == '{') {
    return "is JSON, and tells no format of ours";
  }
  return nullptr;
}

/// What others' formats begin with.
std::optional<FileKind> kind_of_magic(std::string_view bytes) {
  if (bytes.starts_with("\x93NUMPY"sv)) return FileKind::npy;
  if (bytes.starts_with("\x89HDF\r\n\x1a\n"sv)) return FileKind::hdf5;
  // A zip archive of entries, or of none.
  if (bytes.starts_with("PK\x03\x04"sv) || bytes.starts_with("PK\x05\x06"sv)) return FileKind::npz;
  if (bytes.size() >= 20 && number_at(bytes, 16, 4) == 0xBEEFC0DEU) return FileKind::lmdb;
  return std::nullopt;
}

/// Whether a folder has files that are called records.
bool has_records(const fs::path& folder) {
  std::error_code failed;
  for (auto entry = fs::directory_iterator(folder, failed); !failed && entry != fs::directory_iterator();
       entry.increment(failed)) {
    if (entry->path().extension() == ".tfrecord") return true;
  }
  return false;
}

bool has_classes_of_pictures(const fs::path& path) {
  const std::vector<PictureFolder> parts = picture_parts(path);
  return std::any_of(parts.begin(), parts.end(),
                     [](const PictureFolder& part) { return !picture_folders_in(part.path).empty(); });
}

FileKind kind_of_folder(const fs::path& path) {
  // What cannot be looked at, such as a link to itself, is not there.
  const auto has = [&](const char* name) {
    std::error_code ignored;
    return fs::exists(path / name, ignored);
  };
  if (has(kManifestName)) return FileKind::checkpoint;
  if (has("latest") || !CheckpointFolder(path).steps().empty()) return FileKind::checkpoint_folder;
  if (has("data.mdb")) return FileKind::lmdb;
  if (!database_parts_in(path).empty()) return FileKind::lmdb_parts;
  if (!event_files_in(path).empty()) return FileKind::event_files;
  if (has_records(path)) return FileKind::tfrecord_files;
  if (has_classes_of_pictures(path)) return FileKind::images;
  if (has_pictures(path)) {
    refuse(path, "is a folder of pictures without a folder for each class",
           "make a folder for each class: 'sectionflow train --data images:FOLDER' reads the folder that has these");
  }
  refuse(path,
         "is a folder, and neither a checkpoint nor one of them, nor of event files, of records, of pictures or a "
         "database",
         "give a file in it, a checkpoint's folder (step-N), or the folder that has these");
}

}  // namespace

std::string kind_name(FileKind kind) {
  for (const NamedKind& each : kKinds) {
    if (each.kind == kind) return each.name;
  }
  return {};
}

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const NamedKind& each : kKinds) names.emplace_back(each.name);
  return names;
}

FileKind kind_named(const std::string& name) {
  check_known(name, kind_names(), "--kind: '" + name + "' is no kind of file");
  return std::find_if(std::begin(kKinds), std::end(kKinds), [&](const NamedKind& each) { return name == each.name; })
      ->kind;
}

std::vector<fs::path> database_parts_in(const fs::path& folder) {
  std::vector<fs::path> parts;
  for (const char* name : {"train", "validation", "test"}) {
    std::error_code ignored;
    if (fs::is_regular_file(folder / name / "data.mdb", ignored)) parts.push_back(folder / name);
  }
  return parts;
}

std::vector<fs::path> event_files_in(const fs::path& folder) {
  constexpr int kMostLevels = 4;  // as far down as TensorBoard's users put one run below the other
  std::vector<fs::path> files;
  std::error_code failed;
  auto entry = fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied, failed);
  for (; !failed && entry != fs::recursive_directory_iterator(); entry.increment(failed)) {
    if (entry.depth() >= kMostLevels) entry.disable_recursion_pending();
    std::error_code ignored;
    const bool is_named = entry->path().filename().string().find(".tfevents.") != std::string::npos;
    if (is_named && entry->is_regular_file(ignored)) files.push_back(entry->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

FileKind kind_of(const fs::path& path) {
  check_path(path, "inspect");
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  SF_CHECK(fs::exists(status), DataError, "inspect: there is no '", path.string(), "'");
  if (fs::is_directory(status)) return kind_of_folder(path);
  SF_CHECK(fs::is_regular_file(status), DataError, "inspect: '", path.string(), "' is no regular file");
  const std::string bytes = beginning_of(path);
  const std::string_view format = json_format(bytes);
  if (is_safetensors(bytes, fs::file_size(path))) return FileKind::safetensors;
  if (format == "sectionflow-graph") return FileKind::graph;
  if (format == "sectionflow profile") return FileKind::profile;
  if (format == "sectionflow-plan") return FileKind::plan;
  if (format == "sectionflow-checkpoint") {
    refuse(path, "is the manifest of a checkpoint", "inspect its folder: " + path.parent_path().string());
  }
  if (const auto kind = kind_of_magic(bytes)) return *kind;
  if (const auto kind = kind_of_records(path, bytes)) return *kind;
  if (is_idx(bytes)) return FileKind::idx;
  if (const auto kind = kind_of_name(path)) return *kind;
  if (bytes.empty()) refuse(path, "is empty", advice_of_kinds());
  const char* const foreign = foreign_kind(bytes);
  refuse(path, foreign != nullptr ? foreign : "is of no kind that is known here", advice_of_kinds());
}

}  // namespace sectionflow

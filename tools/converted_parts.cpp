#include "tools/converted_parts.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <functional>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/whole_file.h"
#include "sources/class_names.h"
#include "sources/convert.h"
#include "sources/lmdb.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWhat = "convert";
constexpr const char* kUnfinished = "convert.unfinished";
constexpr std::string_view kNew = ".new-", kOld = ".old-";
/// The parts that a data set may have.
constexpr std::array<const char*, 4> kPartNames = {"all", "train", "test", "validation"};

bool is_there(const fs::path& path) {
  std::error_code failed;
  return fs::symlink_status(path, failed).type() != fs::file_type::not_found;
}

fs::path beside(const fs::path& path, std::string_view ending) {
  return path.string() + std::string(ending) + std::to_string(getpid());
}

/// Of "database.new-123", and of "database.new-123.tmp-123", which a database is called while it is written: whether
/// no other process that runs has that number.
bool is_left_over(std::string_view name, const std::string& beginning) {
  if (!name.starts_with(beginning)) return false;
  pid_t pid = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, failed] = std::from_chars(name.data() + beginning.size(), end, pid);
  const std::string_view rest(stop, static_cast<std::size_t>(end - stop));
  if (failed != std::errc() || pid <= 0 || (!rest.empty() && !rest.starts_with(".tmp-"))) return false;
  return pid == getpid() || (kill(pid, 0) != 0 && errno == ESRCH);
}

using IsOurs = std::function<bool(const std::string& name)>;

/// Removes a folder that holds nothing but what is ours; any other stays.
void remove_folder(const fs::path& folder, const IsOurs& is_ours, std::error_code& failed) {
  std::vector<fs::path> files;
  for (auto entry = fs::directory_iterator(folder, failed); !failed && entry != fs::directory_iterator();
       entry.increment(failed)) {
    if (!is_ours(entry->path().filename().string())) failed = std::make_error_code(std::errc::directory_not_empty);
    if (failed) return;
    files.push_back(entry->path());
  }
  for (const fs::path& file : files) {
    if (!failed) fs::remove(file, failed);
  }
  if (!failed) fs::remove(folder, failed);
}

/// Removes what killed calls have left beside `path`.
void remove_left_over(const fs::path& path, std::string_view ending, const IsOurs& is_ours) {
  const std::string beginning = path.filename().string() + std::string(ending);
  std::vector<fs::path> found;
  std::error_code failed;
  for (auto entry = fs::directory_iterator(path.has_parent_path() ? path.parent_path() : ".", failed);
       !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    if (is_left_over(entry->path().filename().string(), beginning) && !entry->is_symlink()) {
      found.push_back(entry->path());
    }
  }
  // One that cannot be removed is in nobody's way.
  for (const fs::path& each : found) remove_folder(each, is_ours, failed);
}

void rename_or_throw(const fs::path& from, const fs::path& to) {
  std::error_code failed;
  fs::rename(from, to, failed);
  SF_CHECK(!failed, DataError, kWhat, ": '", from.string(), "' cannot be renamed to '", to.string(), "' (",
           failed.message(), ")", hint("may this process write there, and is nothing else of that name?"));
}

/// A folder that goes with what it holds of ours unless it has been put in place.
class NewFolder {
 public:
  NewFolder(fs::path path, IsOurs is_ours) : path_(std::move(path)), is_ours_(std::move(is_ours)) {}
  NewFolder(NewFolder&& other) noexcept : path_(std::exchange(other.path_, {})), is_ours_(std::move(other.is_ours_)) {}
  NewFolder& operator=(NewFolder&&) = delete;
  ~NewFolder() {
    std::error_code ignored;
    if (!path_.empty() && is_there(path_)) remove_folder(path_, is_ours_, ignored);
  }
  const fs::path& path() const { return path_; }
  void release() { path_.clear(); }

 private:
  fs::path path_;
  IsOurs is_ours_;
};

bool is_of_database(const std::string& name) {
  return name == "data.mdb" || name == "lock.mdb" || name == kClassNamesFile;
}

bool is_of_records(const std::string& name) {
  return name == kClassNamesFile || name.starts_with(std::string(kClassNamesFile) + ".tmp-") ||
         std::any_of(kPartNames.begin(), kPartNames.end(),
                     [&](const std::string& part) { return name.starts_with(part + "-"); });
}

/// The shards of all data sets that a folder has.
std::vector<fs::path> shards_of_all_parts(const fs::path& folder) {
  std::vector<fs::path> all;
  for (const char* part : kPartNames) {
    const std::vector<fs::path> shards = shards_in(folder, part);
    all.insert(all.end(), shards.begin(), shards.end());
  }
  return all;
}

void remove_or_throw(const fs::path& path) {
  std::error_code failed;
  fs::remove(path, failed);
  SF_CHECK(!failed, DataError, kWhat, ": '", path.string(), "' of another data set cannot be removed (",
           failed.message(), "); the new one is in place beside it", hint("remove it by hand"));
}

void check_no_folder(const fs::path& file) {
  std::error_code ignored;
  SF_CHECK(!fs::is_directory(file, ignored), DataError, kWhat, ": '", file.string(),
           "' is a folder; wanted a file's name", hint("choose another folder, or move it away; nothing has changed"));
}

/// A folder to write in, with those above it. If it was not there before and is still empty, it goes again.
class TargetFolder {
 public:
  explicit TargetFolder(const fs::path& path) : path_(path), was_there_(is_there(path)) { make_folder(path, kWhat); }
  ~TargetFolder() {
    std::error_code ignored;
    if (!was_there_) fs::remove(path_, ignored);  // none with anything in it
  }
  TargetFolder(const TargetFolder&) = delete;
  TargetFolder& operator=(const TargetFolder&) = delete;

 private:
  fs::path path_;
  bool was_there_;
};

/// A file that stands in a folder while the parts of a data set get their places one after the other: whatever ends
/// that, a mixture of two data sets is known for one (check_complete).
class UnfinishedMark {
 public:
  explicit UnfinishedMark(const fs::path& folder) : folder_(folder) {
    write_whole_file_in(folder, kUnfinished, "sectionflow convert puts the files of a data set in their places\n",
                        kWhat);
  }
  void remove() const {
    flush_folder(folder_, kWhat);
    remove_or_throw(folder_ / kUnfinished);
    flush_folder(folder_, kWhat);
  }

 private:
  fs::path folder_;
};

/// Renames the files into the folder, and then removes those of other data sets. The names of classes come last: until
/// then the old ones may be there, or none.
std::vector<fs::path> put_records_in_place(const std::vector<fs::path>& files, const fs::path& names,
                                           const fs::path& folder) {
  for (const fs::path& file : files) check_no_folder(folder / file.filename());
  check_no_folder(folder / kClassNamesFile);
  const UnfinishedMark mark(folder);
  std::vector<fs::path> placed;
  for (const fs::path& file : files) {
    placed.push_back(folder / file.filename());
    rename_or_throw(file, placed.back());
  }
  for (const fs::path& shard : shards_of_all_parts(folder)) {
    if (std::find(placed.begin(), placed.end(), shard) == placed.end()) remove_or_throw(shard);
  }
  const fs::path to = folder / kClassNamesFile;
  if (is_there(names)) {
    rename_or_throw(names, to);
    placed.push_back(to);
  } else if (is_there(to)) {
    remove_or_throw(to);
  }
  mark.remove();
  return placed;
}

/// Throws: DataError unless a folder that is to be replaced holds a database and nothing else, which would go with it.
void check_replaceable(const fs::path& database) {
  bool has_data = false;
  std::error_code failed;
  for (auto entry = fs::directory_iterator(database, failed); !failed && entry != fs::directory_iterator();
       entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    has_data = has_data || name == "data.mdb";
    SF_CHECK(is_of_database(name), DataError, kWhat, ": '", database.string(), "' holds '", name,
             "', which is no part of a database", hint("choose another folder; nothing has been written"));
  }
  SF_CHECK(!failed && has_data, DataError, kWhat, ": '", database.string(), "' is no database",
           hint("choose another folder; nothing has been written"));
}

/// The databases of a folder that are no part of the data set that is to be there. Folders of other things are
/// nobody's.
std::vector<fs::path> stale_databases(const fs::path& folder, const std::vector<LabelledPart>& parts) {
  std::vector<fs::path> stale;
  if (parts.size() == 1) return stale;  // the folder itself is replaced
  for (const char* name : kPartNames) {
    const bool is_part = std::any_of(parts.begin(), parts.end(), [&](const auto& part) { return part.name == name; });
    if (!is_part && is_there(folder / name / "data.mdb")) stale.push_back(folder / name);
  }
  return stale;
}

/// Of a symbolic link what it names stays: it lies in somebody else's folder.
void remove_database(const fs::path& path) {
  std::error_code failed;
  if (fs::is_symlink(path, failed)) {
    remove_or_throw(path);
    return;
  }
  remove_folder(path, is_of_database, failed);
  SF_CHECK(!failed, DataError, kWhat, ": '", path.string(), "', a part of another data set, cannot be removed (",
           failed.message(), "); the new one is in place beside it", hint("remove it by hand"));
}

/// Where the path leads, so that a symbolic link stays and the database that it names is replaced.
fs::path database_meant(const fs::path& path) {
  std::error_code failed;
  const fs::path meant = fs::canonical(path, failed);
  if (!failed) return meant;
  return path.has_filename() ? path : path.parent_path();  // "database/"
}

/// Puts a database where another may be. Where the file system can, the two change their names at once.
void put_database_in_place(NewFolder& made, const fs::path& path) {
  const fs::path fresh = made.path();
  if (!is_there(path)) {
    rename_or_throw(fresh, path);
    made.release();
    return;
  }
  fs::path old = fresh;
  if (renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0) {
    SF_CHECK(errno == EINVAL || errno == ENOSYS || errno == ENOTSUP, DataError, kWhat, ": '", path.string(),
             "' cannot be replaced (", std::error_code(errno, std::generic_category()).message(), ")",
             hint("may this process write in the folder above it? Nothing has changed"));
    old = beside(path, kOld);
    rename_or_throw(path, old);
    try {
      rename_or_throw(fresh, path);
    } catch (...) {
      std::error_code ignored;
      fs::rename(old, path, ignored);
      throw;
    }
  }
  made.release();
  std::error_code failed;
  remove_folder(old, is_of_database, failed);
  SF_CHECK(!failed, DataError, kWhat, ": '", path.string(), "' is written; what was there is now '", old.string(),
           "' and cannot be removed (", failed.message(), ")", hint("remove it by hand"));
}

}  // namespace

void check_complete(const fs::path& folder) {
  SF_CHECK(!is_there(folder / kUnfinished), DataError, "'", folder.string(), "' has '", kUnfinished,
           "': a conversion into it was cut off, or is under way, and its files may be of two data sets",
           hint("call 'sectionflow convert' again, with --overwrite"));
}

void check_free(const fs::path& path, bool overwrite) {
  SF_CHECK(!is_there(path) || overwrite, ArgumentError, kWhat, ": '", path.string(),
           "' is there already, or cannot be looked at", hint("--overwrite replaces it; nothing has been written"));
}

Converted write_record_parts(const fs::path& folder, const std::vector<LabelledPart>& parts,
                             const TfrecordWriterOptions& options) {
  for (const fs::path& file : shards_of_all_parts(folder)) check_free(file, options.overwrite);
  check_free(folder / kClassNamesFile, options.overwrite);
  const TargetFolder target(folder);
  // Within the folder, which may be a disk of its own; no reader takes the name for a file of records.
  const fs::path beginning = folder / "records";
  remove_left_over(beginning, kNew, is_of_records);
  const NewFolder made(beside(beginning, kNew), is_of_records);
  Converted converted;
  std::vector<fs::path> files;
  for (const LabelledPart& part : parts) {
    const std::vector<fs::path> written =
        write_image_tfrecords(made.path(), part.name, *part.source, options, part.classes);
    files.insert(files.end(), written.begin(), written.end());
    converted.examples += part.source->size();
  }
  if (!parts.front().classes.empty()) write_class_names(made.path(), parts.front().classes);
  converted.written = put_records_in_place(files, made.path() / kClassNamesFile, folder);
  return converted;
}

Converted write_database_parts(const fs::path& folder, const std::vector<LabelledPart>& parts, bool overwrite) {
  Converted converted;
  // Looked at before anything is written: no part is left behind where another cannot be.
  for (const LabelledPart& part : parts) {
    converted.written.push_back(parts.size() > 1 ? folder / part.name : folder);
    check_free(converted.written.back(), overwrite);
    if (is_there(converted.written.back())) check_replaceable(converted.written.back());
  }
  const std::vector<fs::path> stale = stale_databases(folder, parts);
  for (const fs::path& path : stale) {
    check_free(path, overwrite);
    check_replaceable(path);
  }
  SF_CHECK(parts.size() == 1 || !is_there(folder / "data.mdb"), DataError, kWhat, ": '", folder.string(),
           "' is a database itself; wanted a folder for the databases of ", parts.size(), " parts",
           hint("choose another folder; nothing has been written"));
  const fs::path above = database_meant(folder).parent_path();
  const TargetFolder target(parts.size() > 1 ? folder : above.empty() ? fs::path(".") : above);
  std::vector<NewFolder> made;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const fs::path path = database_meant(converted.written[i]);
    remove_left_over(path, kNew, is_of_database);
    // Of a call that was killed between two renames the old database is the only one, until there is a new one.
    if (is_there(path)) remove_left_over(path, kOld, is_of_database);
    made.emplace_back(beside(path, kNew), is_of_database);
    converted.examples += write_lmdb(made.back().path(), *parts[i].source);
    if (!parts[i].classes.empty()) write_class_names(made.back().path(), parts[i].classes);
  }
  std::optional<UnfinishedMark> mark;
  if (parts.size() > 1) mark.emplace(folder);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const fs::path path = database_meant(converted.written[i]);
    put_database_in_place(made[i], path);
    flush_folder(path.has_parent_path() ? path.parent_path() : ".", kWhat);
    remove_left_over(path, kOld, is_of_database);
  }
  for (const fs::path& path : stale) remove_database(path);
  if (mark) mark->remove();
  return converted;
}

}  // namespace sectionflow

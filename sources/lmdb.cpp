#include "sources/lmdb.h"

#include "sources/missing_library.h"

#ifdef SF_HAS_LMDB
#include <fcntl.h>
#include <lmdb.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/whole_file.h"
#include "data/source_identity.h"
#include "sources/datum.h"
#include "sources/lmdb_check.h"
#endif

namespace sectionflow {

#ifdef SF_HAS_LMDB
namespace {

namespace fs = std::filesystem;

void want_lmdb(int code, const std::string& where, const char* step) {
  SF_CHECK(code == MDB_SUCCESS, DataError, where, step, " (", mdb_strerror(code), ")");
}

struct CloseEnvironment {
  void operator()(MDB_env* environment) const { mdb_env_close(environment); }
};
struct AbortTransaction {
  void operator()(MDB_txn* transaction) const { mdb_txn_abort(transaction); }
};
struct CloseCursor {
  void operator()(MDB_cursor* cursor) const { mdb_cursor_close(cursor); }
};
using Environment = std::unique_ptr<MDB_env, CloseEnvironment>;
using Transaction = std::unique_ptr<MDB_txn, AbortTransaction>;
using Cursor = std::unique_ptr<MDB_cursor, CloseCursor>;

Environment new_environment(const std::string& where) {
  MDB_env* environment = nullptr;
  want_lmdb(mdb_env_create(&environment), where, "liblmdb does not begin");
  return Environment(environment);
}
Transaction begin(MDB_env* environment, unsigned flags, const std::string& where) {
  MDB_txn* transaction = nullptr;
  want_lmdb(mdb_txn_begin(environment, nullptr, flags, &transaction), where, "it cannot be read");
  return Transaction(transaction);
}

/// A database that is open to be read. Owns: its environment.
struct LmdbDatabase {
  fs::path file;
  std::string where;
  LmdbOptions options;
  std::int64_t num_records = 0;
  Environment environment;
  MDB_dbi records = 0;  // opened once: liblmdb forbids that beside other transactions, of which streams have some
  std::uint64_t num_bytes = 0;  // of the pages that it says it has

  /// liblmdb maps the file, and to read what has gone of it would end the process.
  void want_whole() const {
    mdb_filehandle_t opened = -1;
    struct stat status {};
    want_lmdb(mdb_env_get_fd(environment.get(), &opened), where, "it cannot be read");
    SF_CHECK_CODE(fstat(opened, &status) == 0, DataError, ErrorCode::unreadable_now, where, "it cannot be examined (",
                  std::strerror(errno), ")");
    SF_CHECK_CODE(static_cast<std::uint64_t>(status.st_size) >= num_bytes, DataError, ErrorCode::unreadable_now, where,
                  "its pages take ", num_bytes, " bytes, and of these it has ", status.st_size, " now",
                  hint("leave a file that is read as it is; give another one its name by renaming, as convert does"));
  }
};

class LmdbStream final : public ExampleStream {
 public:
  explicit LmdbStream(std::shared_ptr<const LmdbDatabase> database) : database_(std::move(database)) {
    database_->want_whole();
    transaction_ = begin(database_->environment.get(), MDB_RDONLY, database_->where);
    MDB_cursor* cursor = nullptr;
    want_lmdb(mdb_cursor_open(transaction_.get(), database_->records, &cursor), database_->where, "it cannot be read");
    cursor_.reset(cursor);
  }

  std::optional<Example> next() override {
    MDB_val key{}, value{};
    if (!advance(key, value)) return std::nullopt;
    std::string shown;
    for (const char c : std::string_view(static_cast<const char*>(key.mv_data), key.mv_size).substr(0, 80))
      shown += c >= ' ' && c <= '~' ? c : '?';
    try {
      return parse_datum({static_cast<const char*>(value.mv_data), value.mv_size}, database_->options,
                         text_of(database_->where, "record ", index_, " '", shown, "': "));
    } catch (const DataError& error) {
      if (error.code() != ErrorCode::data) throw;
      throw DataError(error.message(), ErrorCode::damaged_record);
    }
  }

  std::int64_t skip(std::int64_t count) override {
    std::int64_t done = 0;
    MDB_val key{}, value{};
    while (done < count && advance(key, value)) ++done;
    return done;
  }

 private:
  bool advance(MDB_val& key, MDB_val& value) {
    if (has_ended_) return false;
    database_->want_whole();
    const int code = mdb_cursor_get(cursor_.get(), &key, &value, index_ < 0 ? MDB_FIRST : MDB_NEXT);
    has_ended_ = code != MDB_SUCCESS;
    if (code == MDB_NOTFOUND) return false;
    want_lmdb(code, database_->where, "it cannot be read");
    ++index_;
    return true;
  }

  std::shared_ptr<const LmdbDatabase> database_;
  Transaction transaction_;
  Cursor cursor_;
  std::int64_t index_ = -1;
  bool has_ended_ = false;
};

class LmdbSource final : public StreamSource {
 public:
  explicit LmdbSource(std::shared_ptr<const LmdbDatabase> database) : database_(std::move(database)) {}
  std::string name() const override { return "LMDB '" + database_->file.string() + "'"; }
  std::string identity() const override {
    return identity_.get([&] { return "LMDB " + identity_of_files({database_->file}); });
  }
  std::optional<std::int64_t> size() const override { return database_->num_records; }
  std::unique_ptr<ExampleStream> open() const override { return std::make_unique<LmdbStream>(database_); }

 private:
  TextOnce identity_;
  std::shared_ptr<const LmdbDatabase> database_;
};

/// Puts records into a new database, some at a time.
class LmdbFiller {
 public:
  LmdbFiller(const fs::path& folder, std::string where)
      : folder_(folder), where_(std::move(where)), environment_(new_environment(where_)) {
    want_lmdb(mdb_env_set_mapsize(environment_.get(), map_bytes_), where_, "it cannot be made");
    want_written(mdb_env_open(environment_.get(), folder.c_str(), MDB_NOLOCK, 0644), "it cannot be made");
  }
  void add(std::string key, std::string value) {
    waiting_bytes_ += value.size();
    waiting_.emplace_back(std::move(key), std::move(value));
    if (waiting_bytes_ >= 16_MiB) commit();
  }
  void finish() {
    commit();
    want_written(mdb_env_sync(environment_.get(), 1), "it cannot be written to the disk");
  }

 private:
  /// Of what is written: liblmdb says "input/output error" where a disk takes less than it was given.
  void want_written(int code, const char* step) const {
    if (code != ENOSPC && code != EDQUOT && code != EIO && code != EFBIG) return want_lmdb(code, where_, step);
    struct statvfs status {};
    const bool is_known = statvfs(folder_.c_str(), &status) == 0;
    const std::uint64_t free_bytes = is_known ? std::uint64_t{status.f_bavail} * status.f_frsize : 0;
    // A record is in pages of its own, or shares some.
    const std::uint64_t wanted = waiting_bytes_ + waiting_.size() * kRecordBytes + kHeadBytes;
    const bool is_full = code == ENOSPC || code == EDQUOT || (is_known && free_bytes < wanted);
    SF_CHECK(!is_full, DataError, where_, step, ": the disk is full: about ", bytes_text(wanted),
             " were to be written, and ", bytes_text(free_bytes), " are free",
             hint("make space there, or choose another folder; nothing else has changed"));
    throw DataError(
        error_text_of(where_, step, " (", mdb_strerror(code), "): about ", bytes_text(wanted),
                      " were to be written, and the disk has ", bytes_text(free_bytes), " free",
                      hint("may a file be so large (ulimit -f)? Else look at the disk and the machine's log, "
                           "or choose another folder")));
  }
  void commit() {
    int code = try_commit();
    for (; code == MDB_MAP_FULL; code = try_commit()) {
      map_bytes_ *= 2;
      want_lmdb(mdb_env_set_mapsize(environment_.get(), map_bytes_), where_, "it cannot grow");
    }
    want_written(code, "its records cannot be written");
    waiting_.clear();
    waiting_bytes_ = 0;
  }
  int try_commit() {
    Transaction transaction = begin(environment_.get(), 0, where_);
    MDB_dbi records = 0;
    int code = mdb_dbi_open(transaction.get(), nullptr, 0, &records);
    for (auto record = waiting_.begin(); code == MDB_SUCCESS && record != waiting_.end(); ++record) {
      MDB_val key{record->first.size(), record->first.data()}, value{record->second.size(), record->second.data()};
      // Keys come in their order, so that pages are filled one after the other.
      code = mdb_put(transaction.get(), records, &key, &value, MDB_APPEND);
    }
    return code == MDB_SUCCESS ? mdb_txn_commit(transaction.release()) : code;
  }

  static constexpr std::uint64_t kRecordBytes = 64, kHeadBytes = 16_KiB;  // beside the pictures
  fs::path folder_;
  std::string where_;
  std::size_t map_bytes_ = 64_MiB;
  Environment environment_;
  std::vector<std::pair<std::string, std::string>> waiting_;
  std::size_t waiting_bytes_ = 0;
};

/// A new folder beside the one that is meant, which it becomes when all is in it. Owns: the folder until then.
class NewFolder {
 public:
  NewFolder(fs::path path, std::string where) : path_(std::move(path)), where_(std::move(where)) {
    check_path(path_, "write_lmdb");
    while (!path_.has_filename() && path_.has_relative_path()) path_ = path_.parent_path();  // "database/"
    std::error_code failed;
    SF_CHECK(fs::symlink_status(path_, failed).type() == fs::file_type::not_found, DataError, where_,
             "is there already", hint("choose another name, or remove it"));
    temporary_ = path_.string() + text_of(".tmp-", getpid());
    fs::remove_all(temporary_, failed);
    const bool made = fs::create_directory(temporary_, failed);
    SF_CHECK(made, DataError, where_, "the folder cannot be made (", failed.message(), ")",
             hint("is the folder above it there, and may this process write in it?"));
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder() {
    std::error_code ignored;
    if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
  }
  const fs::path& temporary() const { return temporary_; }
  /// A loss of power takes the database or leaves it, whole.
  void commit() {
    flush_folder(temporary_, "write_lmdb");
    std::error_code failed;
    fs::rename(temporary_, path_, failed);
    SF_CHECK(!failed, DataError, where_, "the finished folder cannot get its name (", failed.message(), ")");
    temporary_.clear();
    flush_folder(path_.has_parent_path() ? path_.parent_path() : ".", "write_lmdb");
  }

 private:
  fs::path path_, temporary_;
  std::string where_;
};

}  // namespace

std::shared_ptr<const StreamSource> lmdb_source(const fs::path& path, LmdbOptions options) {
  check_path(path, "lmdb_source");
  std::error_code ignored;
  auto database = std::make_shared<LmdbDatabase>();
  database->file = fs::is_directory(path, ignored) ? path / "data.mdb" : path;
  database->where = "LMDB file '" + database->file.string() + "': ";
  database->options = options;
  database->num_records = check_lmdb_file(database->file);
  database->environment = new_environment(database->where);
  constexpr unsigned kFlags = MDB_RDONLY | MDB_NOLOCK | MDB_NOSUBDIR | MDB_NOTLS;
  want_lmdb(mdb_env_open(database->environment.get(), database->file.c_str(), kFlags, 0644), database->where,
            "it cannot be opened");
  MDB_envinfo info{};
  MDB_stat pages{};
  want_lmdb(mdb_env_info(database->environment.get(), &info), database->where, "it cannot be read");
  want_lmdb(mdb_env_stat(database->environment.get(), &pages), database->where, "it cannot be read");
  database->num_bytes = (std::uint64_t{info.me_last_pgno} + 1) * pages.ms_psize;
  database->want_whole();
  Transaction first = begin(database->environment.get(), MDB_RDONLY, database->where);
  want_lmdb(mdb_dbi_open(first.get(), nullptr, 0, &database->records), database->where, "it has no records");
  want_lmdb(mdb_txn_commit(first.release()), database->where, "it cannot be read");
  return std::make_shared<LmdbSource>(std::move(database));
}

std::int64_t write_lmdb(const fs::path& path, const IndexedSource& source, LmdbOptions options) {
  const std::string where = "write_lmdb: '" + path.string() + "': ";
  NewFolder folder(path, where);
  constexpr std::int64_t kMost = 100'000'000;  // that keys of eight digits number
  SF_CHECK(source.size() <= kMost, DataError, where, source.size(), " examples; at most ", kMost);
  {
    LmdbFiller filler(folder.temporary(), where);
    for (std::int64_t i = 0; i < source.size(); ++i) {
      char key[24];
      std::snprintf(key, sizeof key, "%08lld", static_cast<long long>(i));
      filler.add(key, serialize_datum(source.at(i), options, text_of(where, "example ", i, ": ")));
    }
    filler.finish();
  }
  folder.commit();
  return source.size();
}
#else
std::shared_ptr<const StreamSource> lmdb_source(const std::filesystem::path&, LmdbOptions) {
  missing_library("lmdb_source", "liblmdb", "liblmdb-dev");
}
std::int64_t write_lmdb(const std::filesystem::path&, const IndexedSource&, LmdbOptions) {
  missing_library("write_lmdb", "liblmdb", "liblmdb-dev");
}
#endif

}  // namespace sectionflow

#include "data/tfrecord_source.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/whole_file.h"
#include "data/source_identity.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;

struct TfrecordFiles {
  std::vector<fs::path> paths;
  FeatureSchema schema;
  RecordOptions options;
  RecordMap map;
};

class TfrecordStream final : public ExampleStream {
 public:
  explicit TfrecordStream(std::shared_ptr<const TfrecordFiles> files) : files_(std::move(files)) {}

  std::optional<Example> next() override {
    while (open_file()) {
      const auto record = reader_->next();
      if (record.has_value()) {
        Example example = parse_tf_example(*record, files_->schema, where());
        return files_->map ? files_->map(std::move(example), where()) : std::move(example);
      }
      leave_file();
    }
    return std::nullopt;
  }

  std::int64_t skip(std::int64_t count) override {
    std::int64_t done = 0;
    while (done < count && open_file()) {
      done += reader_->skip(count - done);
      if (done < count) leave_file();
    }
    return done;
  }

  bool skip_file() override {
    leave_file();
    return file_ < files_->paths.size();
  }

 private:
  /// False behind the last file.
  bool open_file() {
    if (reader_.has_value()) return true;
    if (file_ == files_->paths.size()) return false;
    // A file that cannot be opened is left behind all the same.
    const fs::path& path = files_->paths[file_++];
    reader_.emplace(path, files_->options);
    return true;
  }
  void leave_file() { reader_.reset(); }
  std::string where() const {
    return text_of("TFRecord file '", files_->paths[file_ - 1].string(), "': record ", reader_->index(), " at byte ",
                   reader_->offset(), ": ");
  }

  std::shared_ptr<const TfrecordFiles> files_;
  std::size_t file_ = 0;  // the next to be opened
  std::optional<RecordReader> reader_;
};

class TfrecordSource final : public StreamSource {
 public:
  explicit TfrecordSource(TfrecordFiles files) : files_(std::make_shared<TfrecordFiles>(std::move(files))) {}
  std::string name() const override {
    const auto& paths = files_->paths;
    return text_of("TFRecord '", paths.front().string(), "'",
                   paths.size() > 1 ? text_of(" and ", paths.size() - 1, " more") : "");
  }
  std::string identity() const override {
    return identity_.get([&] { return "TFRecord " + identity_of_files(files_->paths); });
  }
  std::unique_ptr<ExampleStream> open() const override { return std::make_unique<TfrecordStream>(files_); }

 private:
  TextOnce identity_;
  std::shared_ptr<const TfrecordFiles> files_;
};

std::vector<fs::path> files_where(const char* call, const fs::path& folder,
                                  const std::function<bool(const fs::directory_entry&)>& is_wanted) {
  std::vector<fs::path> files;
  std::error_code failed;
  for (auto entry = fs::directory_iterator(folder, failed); !failed && entry != fs::directory_iterator();
       entry.increment(failed)) {
    if (is_wanted(*entry)) files.push_back(entry->path());
  }
  SF_CHECK(!failed, DataError, call, ": the folder '", folder.string(), "' cannot be read (", failed.message(), ")",
           hint("is the path right?"));
  return files;
}

constexpr std::size_t kLeastDigits = 5;
constexpr std::string_view kShardEnding = ".tfrecord";

/// The digits of "<prefix>-00012.tfrecord"; nothing of another name.
std::string_view number_of_shard(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix) || !name.ends_with(kShardEnding)) return {};
  if (name.size() < prefix.size() + 1 + kLeastDigits + kShardEnding.size() || name[prefix.size()] != '-') return {};
  name.remove_prefix(prefix.size() + 1);
  name.remove_suffix(kShardEnding.size());
  return name.find_first_not_of("0123456789") == std::string_view::npos ? name : std::string_view();
}

}  // namespace

std::shared_ptr<const StreamSource> tfrecord_source(std::vector<fs::path> files, FeatureSchema schema,
                                                    RecordOptions options, RecordMap map) {
  SF_CHECK(!files.empty(), ArgumentError, "tfrecord_source: no files; wanted one at least",
           hint("files_in(folder) lists those of a folder"));
  check_schema(schema);
  for (const fs::path& path : files) {
    check_path(path, "tfrecord_source");
    std::error_code ignored;
    SF_CHECK(fs::is_regular_file(path, ignored), DataError, "tfrecord_source: '", path.string(),
             "' is missing or not a file", hint("is the path right?"));
  }
  return std::make_shared<TfrecordSource>(TfrecordFiles{std::move(files), std::move(schema), options, std::move(map)});
}

std::vector<fs::path> files_in(const fs::path& folder, const std::string& ending) {
  check_path(folder, "files_in");
  std::vector<fs::path> files = files_where("files_in", folder, [&](const fs::directory_entry& entry) {
    std::error_code ignored;
    return entry.path().filename().string().ends_with(ending) && entry.is_regular_file(ignored);
  });
  SF_CHECK(!files.empty(), DataError, "files_in: no file of the folder '", folder.string(), "' ends in '", ending, "'");
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<fs::path> shards_in(const fs::path& folder, const std::string& prefix) {
  check_path(folder, "shards_in");
  std::error_code ignored;
  if (fs::symlink_status(folder, ignored).type() == fs::file_type::not_found) return {};
  std::vector<fs::path> files = files_where("shards_in", folder, [&](const fs::directory_entry& entry) {
    return !number_of_shard(entry.path().filename().string(), prefix).empty();
  });
  // Of a longer number, which is a larger one, the name is longer.
  std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) {
    return std::pair(a.native().size(), a.native()) < std::pair(b.native().size(), b.native());
  });
  return files;
}

struct TfrecordWriter::State {
  fs::path folder;
  std::string prefix;
  TfrecordWriterOptions options;
  std::string ending = text_of(".new-", getpid());  // of what is not in place yet; no reader takes it for a shard
  std::vector<fs::path> files;
  std::size_t placed = 0;  // of the files
  std::unique_ptr<AtomicFile> file;
  std::optional<RecordWriter> writer;
  std::string buffer;
  std::size_t shard_bytes = 0;
  bool has_failed = false;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    std::error_code ignored;
    for (; placed < files.size(); ++placed) fs::remove(unplaced(files[placed]), ignored);
  }
  fs::path unplaced(const fs::path& path) const { return path.string() + ending; }

  /// What has failed half way must not be completed.
  template <class Call>
  void all_or_nothing(const Call& call) {
    SF_CHECK(!has_failed, DataError, "TfrecordWriter: an earlier call has failed, and '", prefix, "' in the folder '",
             folder.string(), "' is not complete", hint("make a new writer"));
    has_failed = true;
    call();
    has_failed = false;
  }

  // Hidden, as are its lambdas then: of a class within an exported one they would be exported.
  [[gnu::visibility("hidden")]] void begin_file() {
    std::string number = std::to_string(files.size());
    number.insert(0, number.size() < kLeastDigits ? kLeastDigits - number.size() : 0, '0');
    const fs::path path = folder / text_of(prefix, "-", number, kShardEnding);
    file = std::make_unique<AtomicFile>(unplaced(path), "TfrecordWriter");
    writer.emplace(
        [this](const char* bytes, std::size_t num_bytes) {
          buffer.append(bytes, num_bytes);
          if (buffer.size() >= 256_KiB) flush();
        },
        options.compression);
    files.push_back(path);
    shard_bytes = 0;
  }
  /// New shards take the places of the old ones; those that are left belong to another data set.
  [[gnu::visibility("hidden")]] void put_in_place() {
    for (; placed < files.size(); ++placed) {
      std::error_code failed;
      fs::rename(unplaced(files[placed]), files[placed], failed);
      SF_CHECK(!failed, DataError, "TfrecordWriter: '", files[placed].string(), "' cannot be put in place (",
               failed.message(), ")", hint("may this process write in the folder, and is nothing else of that name?"));
    }
    flush_folder(folder, "TfrecordWriter");
    for (const fs::path& old : shards_in(folder, prefix)) {
      if (std::find(files.begin(), files.end(), old) != files.end()) continue;
      std::error_code failed;
      fs::remove(old, failed);
      SF_CHECK(!failed, DataError, "TfrecordWriter: '", old.string(), "' cannot be removed (", failed.message(),
               "); the new shards are in place beside it",
               hint("remove it by hand: it would be read as one with them"));
    }
  }
  void flush() {
    file->write(buffer.data(), buffer.size());
    buffer.clear();
  }
  void end_file() {
    writer->finish();
    flush();
    file->commit();
    writer.reset();
    file.reset();
  }
};

TfrecordWriter::TfrecordWriter(fs::path folder, std::string prefix, TfrecordWriterOptions options)
    : state_(std::make_unique<State>()) {
  SF_CHECK(options.shard_bytes > 0, ArgumentError, "TfrecordWriter: shard_bytes is 0; wanted 1 at least");
  SF_CHECK(options.compression != Compression::automatic, ArgumentError,
           "TfrecordWriter: compression is automatic, which only a reader can make out; wanted none, gzip or zlib");
  SF_CHECK(prefix.find('/') == std::string::npos, ArgumentError, "TfrecordWriter: the prefix '", prefix,
           "' names a folder; wanted the beginning of a file's name");
  const std::vector<fs::path> old = shards_in(folder, prefix);
  SF_CHECK(old.empty() || options.overwrite, ArgumentError, "TfrecordWriter: '",
           old.empty() ? std::string() : old.front().string(), "' is there already, with ", old.size(), " shards of '",
           prefix, "' in all; another data set beside them would be read as one with them",
           hint("write {.overwrite = true} to replace them, or take another prefix or folder"));
  for (const fs::path& each : old) {
    std::error_code ignored;
    SF_CHECK(!fs::is_directory(fs::symlink_status(each, ignored)), DataError, "TfrecordWriter: '", each.string(),
             "' is a folder, which no file can replace", hint("move it, or take another prefix or folder"));
  }
  check_writable_in(folder, prefix + "-00000.tfrecord" + state_->ending, "TfrecordWriter");
  state_->folder = std::move(folder);
  state_->prefix = std::move(prefix);
  state_->options = options;
}
TfrecordWriter::~TfrecordWriter() = default;

void TfrecordWriter::write(std::string_view record) {
  state_->all_or_nothing([&] {
    if (state_->file == nullptr) state_->begin_file();
    state_->writer->write(record);
    constexpr std::size_t kFrameBytes = 16;
    state_->shard_bytes += record.size() + kFrameBytes;
    if (state_->shard_bytes >= state_->options.shard_bytes) state_->end_file();
  });
}

void TfrecordWriter::write(const Example& example) {
  write(serialize_tf_example(example));
}

std::vector<fs::path> TfrecordWriter::finish() {
  state_->all_or_nothing([&] {
    if (state_->file == nullptr && state_->files.empty()) state_->begin_file();
    if (state_->file != nullptr) state_->end_file();
    state_->put_in_place();
  });
  return state_->files;
}

}  // namespace sectionflow

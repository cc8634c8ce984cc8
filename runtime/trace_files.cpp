#include "runtime/trace_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>

#include "base/append_file.h"
#include "base/atomic_file.h"
#include "base/whole_file.h"
#include "runtime/trace_lines.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "trace-", kEnding = ".json";
/// Numbers from here on are of nobody's counting: behind the largest of all there is no next one.
constexpr std::int64_t kMostFiles = 1'000'000'000'000;

/// The number in the name of a file of these; nothing of other names.
std::optional<std::int64_t> number_of_trace(const std::string& name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kEnding)) return std::nullopt;
  std::int64_t number = 0;
  const char* const begin = name.data() + kPrefix.size();
  const char* const end = name.data() + name.size() - kEnding.size();
  if (begin >= end) return std::nullopt;
  const auto [stop, error] = std::from_chars(begin, end, number);
  return error == std::errc() && stop == end && number >= 0 && number < kMostFiles ? std::optional(number)
                                                                                   : std::nullopt;
}

std::map<std::int64_t, fs::path> files_by_number(const fs::path& folder) {
  std::map<std::int64_t, fs::path> files;
  std::error_code failed;
  for (auto entry = fs::directory_iterator(folder, failed); !failed && entry != fs::directory_iterator();
       entry.increment(failed)) {
    if (const auto number = number_of_trace(entry->path().filename().string())) files.emplace(*number, entry->path());
  }
  return files;
}

}  // namespace

/// Says of a file, while it lives, that somebody writes it, so that others who use the folder do not delete it. Goes
/// with the process. File systems without locks do without.
class WriterLock {
 public:
  explicit WriterLock(const fs::path& path)
      : descriptor_(uninterrupted([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW); })),
        is_free_(descriptor_ < 0 || uninterrupted([&] { return flock(descriptor_, LOCK_EX | LOCK_NB); }) == 0 ||
                 errno != EWOULDBLOCK) {}
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;
  ~WriterLock() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  /// False where another has it.
  bool is_free() const { return is_free_; }

 private:
  int descriptor_;
  bool is_free_;
};

struct TraceFiles::State {
  [[gnu::visibility("hidden")]] State(fs::path of, const Graph& traced, TraceFileOptions given)
      : folder(std::move(of)), graph(traced), options(given) {}

  fs::path folder;
  const Graph& graph;
  TraceFileOptions options;
  std::optional<AppendFile> file{};
  std::optional<WriterLock> lock{};  // of the file
  std::size_t file_bytes = 0;
  bool has_events = false;  // in the file or on their way: a new file takes one event however long it is
  std::int64_t next_flow = 0;
  std::vector<std::string> files{};

  // Hidden, as are its lambdas then: of a class within an exported one they would be exported.
  [[gnu::visibility("hidden")]] void begin_file(const Trace& trace) {
    file.reset();
    lock.reset();
    const auto there = files_by_number(folder);
    const fs::path path = make_file(there.empty() ? 0 : there.rbegin()->first + 1);
    std::string head = "[\n";
    for (const std::string& line : trace_head_lines(trace)) head += line + ",\n";
    try {
      file->append(head);
    } catch (...) {
      // Without its head it is no trace, and would count among those that stay.
      file.reset();
      std::error_code ignored;
      fs::remove(path, ignored);
      throw;
    }
    files.push_back(path.string());
    file_bytes = head.size();
    has_events = false;
    delete_oldest();
  }

  /// A file of that number, or of one behind it: another writer may have taken it since the folder was looked at.
  [[gnu::visibility("hidden")]] fs::path make_file(std::int64_t number) {
    constexpr int kMostTaken = 1000;
    for (int taken = 0;; ++taken, ++number) {
      std::string digits = std::to_string(number);
      digits.insert(0, digits.size() < 5 ? 5 - digits.size() : 0, '0');
      const std::string name = std::string(kPrefix) + digits + std::string(kEnding);
      const fs::path path = folder / name;
      check_writable_in(folder, name, "TraceFiles");
      try {
        file.emplace(path, "TraceFiles");
        lock.emplace(path);
        return path;
      } catch (const DataError&) {
        std::error_code ignored;
        if (taken == kMostTaken || fs::symlink_status(path, ignored).type() == fs::file_type::not_found) throw;
      }
    }
  }

  /// What others write now, or what cannot be deleted, stays, and is tried again with the next file.
  [[gnu::visibility("hidden")]] void delete_oldest() {
    if (options.keep == 0) return;
    const auto there = files_by_number(folder);
    std::size_t left = there.size();
    for (auto oldest = there.begin(); left > static_cast<std::size_t>(options.keep); ++oldest, --left) {
      const WriterLock of_deleter(oldest->second);
      if (!of_deleter.is_free()) continue;
      std::error_code failed;
      if (fs::remove(oldest->second, failed)) std::erase(files, oldest->second.string());
    }
  }

  [[gnu::visibility("hidden")]] void add(const Trace& trace) {
    if (trace.events().empty()) return;
    std::string block;
    const auto write_block = [&] {
      if (block.empty()) return;
      try {
        file->append(block);
      } catch (...) {
        file.reset();  // the next events begin another
        throw;
      }
      file_bytes += block.size();
      block.clear();
    };
    if (!file) begin_file(trace);
    for (const std::string& line : trace_event_lines(trace, graph, next_flow)) {
      const bool fits = file_bytes + block.size() + line.size() + 2 <= options.max_file_bytes;
      if (!fits && has_events) {
        write_block();
        begin_file(trace);
      }
      block += line + ",\n";
      has_events = true;
    }
    write_block();
  }
};

TraceFiles::TraceFiles(std::string folder, const Graph& graph, TraceFileOptions options, Where where) {
  call_at(where, [&] {
    check_path(folder, "TraceFiles");
    SF_CHECK(options.max_file_bytes > 0 && options.keep >= 0, ArgumentError, "TraceFiles: max_file_bytes is ",
             options.max_file_bytes, " and keep is ", options.keep, "; wanted 1 or more, and 0 or more");
  });
  state_ = std::make_unique<State>(std::move(folder), graph, options);
}
TraceFiles::~TraceFiles() = default;

void TraceFiles::add(const Trace& trace, Where where) {
  call_at(where, [&] { state_->add(trace); });
}

const std::vector<std::string>& TraceFiles::files() const {
  return state_->files;
}

}  // namespace sectionflow

#include "train/checkpoints.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <new>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/bytes.h"
#include "base/held_signals.h"
#include "base/whole_file.h"
#include "runtime/engine.h"
#include "train/checkpoint_choice.h"
#include "train/checkpoint_place.h"
#include "train/checkpoint_writer.h"
#include "train/session_manifest.h"
#include "train/variable_file.h"
#include "train/variable_snapshot.h"

namespace sectionflow {
namespace {

using Clock = std::chrono::steady_clock;

/// Checkpoints that an error text tells of.
constexpr std::size_t kMostProblems = 5;
/// As long as a hash.
constexpr const char* kHashToCome = "0000000000000000";

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

class Checkpoints::Impl {
 public:
  Impl(std::string folder, CheckpointOptions options)
      : folder_(std::move(folder)),
        options_(std::move(options)),
        // Where the process goes later, the folder stays.
        writer_(absolute_path(folder_), options_) {}
  /// Nobody asks any more what has become of the last save: the log tells.
  ~Impl() {
    try {
      (void)finish();
    } catch (const DataError&) {
      // Of failures that are to end the training finish() has told in the log.
    } catch (const std::exception& error) {
      LOG(ERROR) << "the last checkpoint of '" << folder_ << "' is lost: " << error.what();
    } catch (...) {
      LOG(ERROR) << "the last checkpoint of '" << folder_ << "' is lost";
    }
  }

  const std::string& folder() const { return folder_; }
  std::string identity() const {
    const std::string path = writer_.folder().path().string();
    struct statx status {};
    if (statx(AT_FDCWD, path.c_str(), 0, STATX_INO | STATX_BTIME, &status) != 0) return path;
    // Numbers of folders that are gone are given to others.
    const bool tells_birth = (status.stx_mask & STATX_BTIME) != 0;
    return text_of(status.stx_dev_major, ":", status.stx_dev_minor, ":", status.stx_ino, ":",
                   tells_birth ? status.stx_btime.tv_sec : 0, ":", tells_birth ? status.stx_btime.tv_nsec : 0);
  }
  /// Whether what is in the folder may be that session's.
  bool has_saved(const Session& session) const {
    return statistics_.saved > 0 && saver_ == engine(session).serial() && saved_in_ == identity();
  }
  const CheckpointOptions& options() const { return options_; }
  const CheckpointStatistics& statistics() const { return statistics_; }

  void open() {
    join();
    writer_.open_early();
  }

  bool save(Session& session, const SaveOptions& options) {
    SF_CHECK(options.step >= 0, ArgumentError, "Checkpoints::save: step is ", options.step, "; wanted 0 or more");
    engine(session).check_has_values("Checkpoints::save");
    SF_CHECK_CODE(!engine(session).is_training_refused(), ArgumentError, ErrorCode::averages_in_place,
                  "Checkpoints::save: averages stand in the place of the weights: a training that is resumed from the "
                  "checkpoint would go on from them",
                  hint("end the scope of AveragedWeights first; save_variables writes a file to give them away"));
    check_has_no_shards(session, "Checkpoints::save");
    const bool went_well = finish();
    saving_ = engine(session).serial();
    const auto begin = Clock::now();
    CheckpointJob job{.manifest = manifest_of(session, options),
                      .metadata = {},
                      .types = variable_types(session.graph()),
                      .tensor_of = {}};
    job.metadata = metadata_of({.profile = job.manifest.profile}, session);
    for (const NamedType& each : job.types) {
      job.num_bytes += each.type.bytes();
      job.manifest.hashes[each.name] = kHashToCome;
    }
    (void)manifest_text(job.manifest);  // what cannot be written is the caller's to know, and now
    if (options_.asynchronous && begin_writing(session, job, begin)) return went_well;
    write_now(session, std::move(job), begin);
    return finish() && went_well;
  }

  /// Takes what has become of the last save. Throws where failures are to end the training.
  bool finish() {
    join();
    if (!is_pending_) return true;
    is_pending_ = false;
    if (failure_) return note_failure(std::exchange(failure_, nullptr));
    ++statistics_.saved;
    saver_ = saving_;
    saved_in_ = identity();
    statistics_.failures_in_a_row = 0;
    statistics_.num_bytes = outcome_.num_bytes;
    statistics_.blocked_seconds = blocked_seconds_;
    statistics_.total_seconds = outcome_.total_seconds;
    LOG_IF(WARNING, !outcome_.problem.empty()) << outcome_.problem << "; an old checkpoint stays";
    return true;
  }

  std::optional<RestoredCheckpoint> restore_latest(Session& session, const LoadOptions& options, Where where) {
    join();
    engine(session).check_has_values("restore_latest");
    const CheckpointFolder& folder = writer_.folder();
    check_takes_checkpoints(folder.path());
    std::vector<std::string> problems;
    for (int look = 1; look <= kMostLooksAtCheckpoints; ++look) {
      bool is_gone = false;
      CheckpointChoice choice = choose_checkpoints(folder);
      if (auto restored = restore_first(choice, session, options, where, is_gone)) return restored;
      problems = std::move(choice.problems);
      problems.insert(problems.end(), choice.unreadable.begin(), choice.unreadable.end());
      if (!is_gone) break;
      problems.emplace_back("those that were there are removed faster than they are read");
    }
    SF_CHECK_CODE(problems.empty(), DataError, ErrorCode::no_checkpoint, "restore_latest: no checkpoint in '", folder_,
                  "' is sound: ", listed(problems), hint("take a copy of the folder, or begin anew in another folder"));
    const std::string below = folder_of_checkpoints_in(folder.path());
    LOG_IF(WARNING, !below.empty()) << "restore_latest: no checkpoint in '" << folder_ << "'; '" << below
                                    << "' has some";
    return std::nullopt;
  }

  RestoredCheckpoint restore(Session& session, std::int64_t step, const LoadOptions& options, Where where) {
    join();
    engine(session).check_has_values("restore");
    const std::filesystem::path path = writer_.folder().path_of(step);
    CheckpointContent content = read_checkpoint(path);
    const CheckpointInfo info = info_of(content.manifest, path);
    const VariableFile file = variable_file_of(std::move(content), path.string());
    RestoredCheckpoint restored{info, load_file(session, file, options, where)};
    warn_of_others(session, restored);
    return restored;
  }

  /// By their sequence; those without a manifest first.
  std::vector<CheckpointInfo> list() {
    join();
    check_takes_checkpoints(writer_.folder().path());
    return list_checkpoints(writer_.folder());
  }

 private:
  struct Outcome {
    std::uint64_t num_bytes = 0;
    double total_seconds = 0;
    std::string problem{};
  };

  void join() {
    if (thread_.joinable()) thread_.join();
  }

  /// The first that is sound; what is wrong with those before it joins the problems. `is_gone`: another process has
  /// removed one of them meanwhile.
  [[gnu::visibility("hidden")]] std::optional<RestoredCheckpoint> restore_first(CheckpointChoice& choice,
                                                                                Session& session,
                                                                                const LoadOptions& options, Where where,
                                                                                bool& is_gone) {
    const CheckpointFolder& folder = writer_.folder();
    std::vector<std::string>& problems = choice.problems;
    for (std::int64_t step : choice.steps) {
      const std::filesystem::path path = folder.path_of(step);
      try {
        std::optional<CheckpointContent> content = folder.read_while_there(step, read_checkpoint);
        if (!content) {
          is_gone = true;
          continue;
        }
        const CheckpointInfo info = info_of(content->manifest, path);
        const VariableFile file = variable_file_of(*std::move(content), path.string());
        RestoredCheckpoint restored{info, load_file(session, file, options, where)};
        // Of older ones nobody need know as long as the latest is sound.
        if (!problems.empty()) problems.insert(problems.end(), choice.unreadable.begin(), choice.unreadable.end());
        LOG_IF(WARNING, !problems.empty())
            << "restore_latest: '" << path.string() << "' is the newest sound checkpoint: " << listed(problems);
        warn_of_others(session, restored);
        return restored;
      } catch (const DataError& error) {
        if (error.code() == ErrorCode::other_variables) throw;
        problems.push_back(error.message());
      }
    }
    return std::nullopt;
  }

  /// Starts a thread with a snapshot; false where that does not go.
  // Hidden, as are its lambdas then: of a class within an exported one they would be exported.
  [[gnu::visibility("hidden")]] bool begin_writing(Session& session, CheckpointJob& job, Clock::time_point begin) {
    const auto give_back = [this] {
      join();
      snapshot_.drop();
    };
    if (!snapshot_.take(engine(session), give_back)) {
      LOG_IF(WARNING, statistics_.saved_synchronously == 0)
          << "Checkpoints::save: host_memory has no place for a copy of the variables, " << bytes_text(job.num_bytes)
          << ", beside what programs and others take: saved synchronously";
      ++statistics_.saved_synchronously;
      return false;
    }
    job.tensor_of = [this](const std::string& name) { return snapshot_.tensor(name); };
    outcome_ = {.num_bytes = job.num_bytes};
    try {
      auto moved = std::make_shared<CheckpointJob>(std::move(job));
      is_pending_ = true;
      try {
        thread_ = with_held_signals([&] {
          return std::thread([this, moved, begin] {
            write(std::move(*moved), begin);
            snapshot_.set_idle();
          });
        });
      } catch (const std::system_error&) {
        write(std::move(*moved), begin);
        snapshot_.set_idle();
      }
    } catch (...) {
      is_pending_ = false;
      snapshot_.set_idle();
      throw;
    }
    blocked_seconds_ = seconds_since(begin);
    return true;
  }

  [[gnu::visibility("hidden")]] void write_now(Session& session, CheckpointJob job, Clock::time_point begin) {
    outcome_ = {.num_bytes = job.num_bytes};
    std::map<std::string, Value> variables;
    for (Value variable : session.graph().values(kVariables)) variables[variable.name()] = variable;
    HostTensor current;
    job.tensor_of = [&](const std::string& name) {
      current = session.read(variables.at(name));
      return current.view();
    };
    is_pending_ = true;
    write(std::move(job), begin);
    blocked_seconds_ = seconds_since(begin);
  }

  void write(CheckpointJob job, Clock::time_point begin) {
    try {
      outcome_.problem = writer_.write(std::move(job));
    } catch (...) {
      failure_ = std::current_exception();
    }
    outcome_.total_seconds = seconds_since(begin);
  }

  /// Counts what the world outside has refused; anything else is thrown on.
  bool note_failure(const std::exception_ptr& failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const DataError& error) {
      statistics_.last_failure = error.message();
    } catch (const std::bad_alloc&) {
      statistics_.last_failure = "Checkpoints: the machine has no memory left";
    } catch (const std::system_error& error) {
      statistics_.last_failure = text_of("Checkpoints: ", error.what());
    }
    ++statistics_.failures;
    ++statistics_.failures_in_a_row;
    LOG(WARNING) << "a checkpoint is lost, training goes on: " << statistics_.last_failure;
    SF_CHECK_CODE(options_.stop_after_failures == 0 || statistics_.failures_in_a_row < options_.stop_after_failures,
                  DataError, ErrorCode::checkpoint_failures, "Checkpoints: ", statistics_.failures_in_a_row,
                  " saves in a row have failed, the last as ", statistics_.last_failure,
                  hint("older checkpoints are as they were; stop_after_failures = 0 trains on without new ones"));
    return false;
  }

  static std::string listed(const std::vector<std::string>& problems) {
    std::string text;
    for (std::size_t i = 0; i < problems.size() && i < kMostProblems; ++i) text += (i == 0 ? "" : "; ") + problems[i];
    if (problems.size() > kMostProblems) text += text_of("; and ", problems.size() - kMostProblems, " more");
    return text;
  }

  /// Of what has the training go on with other numbers than it would have.
  static void warn_of_others(const Session& session, const RestoredCheckpoint& restored) {
    const std::string device = noted_device(session);
    LOG_IF(WARNING, restored.report.completed_cycles && restored.checkpoint.device != device)
        << "'" << restored.checkpoint.path << "' was saved on '" << restored.checkpoint.device
        << "', this session computes on '" << device << "': bits may differ from here on";
    LOG_IF(WARNING, restored.report.completed_cycles && restored.checkpoint.seed != session.options().seed)
        << "'" << restored.checkpoint.path << "' was saved by a session of seed " << restored.checkpoint.seed
        << ", this one has seed " << session.options().seed << ": random operations draw other numbers from here on";
  }

  std::string folder_;
  CheckpointOptions options_;
  CheckpointWriter writer_;
  CheckpointStatistics statistics_;
  std::uint64_t saving_ = 0, saver_ = 0;  // serials of the sessions of the save under way and of the last that is whole
  std::string saved_in_;                  // identity of the folder that it was saved in
  bool is_pending_ = false;               // a save whose outcome has not been taken
  Outcome outcome_;
  double blocked_seconds_ = 0;
  std::exception_ptr failure_;
  VariableSnapshot snapshot_;  // what thread_ reads; between two saves idle
  std::thread thread_;
};

Checkpoints::Checkpoints(std::string folder, CheckpointOptions options, Where where) {
  call_at(where, [&] {
    SF_CHECK(!folder.empty() && folder.find('\0') == std::string::npos, ArgumentError,
             "Checkpoints: the folder has no name, or one with a byte of zero", hint("as in Checkpoints(\"run\")"));
    SF_CHECK(options.keep >= 1, ArgumentError, "Checkpoints: keep is ", options.keep, "; wanted 1 or more");
    SF_CHECK(options.stop_after_failures >= 0, ArgumentError, "Checkpoints: stop_after_failures is ",
             options.stop_after_failures, "; wanted 0 or more");
    impl_ = std::make_unique<Impl>(std::move(folder), std::move(options));
  });
}
Checkpoints::~Checkpoints() = default;

void Checkpoints::open(Where where) {
  call_at(where, [&] { impl_->open(); });
}

bool Checkpoints::save(Session& session, const SaveOptions& options, Where where) {
  return call_at(where, [&] { return impl_->save(session, options); });
}
bool Checkpoints::wait(Where where) {
  return call_at(where, [&] { return impl_->finish(); });
}
std::optional<RestoredCheckpoint> Checkpoints::restore_latest(Session& session, const LoadOptions& options,
                                                              Where where) {
  return call_at(where, [&] { return impl_->restore_latest(session, options, where); });
}
RestoredCheckpoint Checkpoints::restore(Session& session, std::int64_t step, const LoadOptions& options, Where where) {
  return call_at(where, [&] { return impl_->restore(session, step, options, where); });
}
std::vector<CheckpointInfo> Checkpoints::list(Where where) const {
  return call_at(where, [&] { return impl_->list(); });
}
std::string Checkpoints::identity() const {
  return impl_->identity();
}

bool Checkpoints::has_saved(const Session& session) const {
  return impl_->has_saved(session);
}

const std::string& Checkpoints::folder() const {
  return impl_->folder();
}
const CheckpointOptions& Checkpoints::options() const {
  return impl_->options();
}

const CheckpointStatistics& Checkpoints::statistics() const {
  return impl_->statistics();
}

}  // namespace sectionflow

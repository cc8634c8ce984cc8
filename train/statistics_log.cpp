#include "train/statistics_log.h"

#include <glog/logging.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/append_file.h"
#include "base/whole_file.h"

namespace sectionflow {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
/// A table that people look at; more is none of ours.
constexpr std::size_t kMostTableBytes = std::size_t{64} << 20;

double mean_of(const std::vector<double>& numbers) {
  double sum = 0;
  for (double number : numbers) sum += number;
  return numbers.empty() ? 0 : sum / static_cast<double>(numbers.size());
}

double median_of(std::vector<double> numbers) {
  if (numbers.empty()) return 0;
  std::sort(numbers.begin(), numbers.end());
  const std::size_t half = numbers.size() / 2;
  return numbers.size() % 2 == 1 ? numbers[half] : (numbers[half - 1] + numbers[half]) / 2;
}

constexpr const char* kCsv = "StatisticsCsv";
constexpr std::string_view kTableNames = "step type,epoch,step,duration,allocs,reclaimOnes,reclaimAlls,GiB reclaimed\n";
/// Rows of some 20 million steps.
constexpr std::size_t kMostStepRowsBytes = std::size_t{1} << 30;
/// A disk that is full stays so for a while; what is held is given to it as a whole.
constexpr int kRowsBetweenTries = 100;

/// Fails at once where a file of that name could not be written later; its folder is made.
void check_place(const std::filesystem::path& path, const char* who) {
  check_writable_in(path.parent_path(), path.filename().string(), who);
}

struct StepRow {
  char type = 't';
  std::int64_t epoch = 0, step = 0;
};

/// What a row begins with. Throws: DataError for one that is none.
StepRow step_row_of(const std::string& row, const std::string& path) {
  StepRow read;
  const char* const end = row.data() + row.size();
  bool is_row = (row.starts_with("t,") || row.starts_with("v,")) && std::count(row.begin(), row.end(), ',') == 7;
  if (is_row) {
    read.type = row[0];
    const auto epoch = std::from_chars(row.data() + 2, end, read.epoch);
    is_row = epoch.ec == std::errc() && *epoch.ptr == ',';
    const auto step = is_row ? std::from_chars(epoch.ptr + 1, end, read.step) : epoch;
    is_row = is_row && step.ec == std::errc() && *step.ptr == ',';
  }
  SF_CHECK(is_row, DataError, kCsv, ": '", path, "' has a row '", row.substr(0, 80),
           "'; wanted rows as in 't,1,20,...'",
           hint("a training that goes on goes on in its file: give it that one, or the name of none"));
  return read;
}

}  // namespace

StepStatistics StatisticsDifferences::step(const Session& session, double duration) {
  const Statistics& now = session.statistics();
  // After clear_statistics() in between, the counters count from 0.
  const auto grown = [](auto after, auto before) { return after < before ? after : after - before; };
  StepStatistics step{.duration = duration,
                      .allocs = grown(now.num_allocs, before_.num_allocs),
                      .reclaim_ones = grown(now.num_single_reclaims, before_.num_single_reclaims),
                      .reclaim_alls = grown(now.num_full_reclaims, before_.num_full_reclaims),
                      .gib_reclaimed = static_cast<double>(grown(now.bytes_reclaimed, before_.bytes_reclaimed)) / kGiB};
  before_ = now;
  return step;
}

/// The file: what it is to begin with, and the rows that follow.
class StatisticsCsv::Table {
 public:
  [[gnu::visibility("hidden")]] explicit Table(std::string path) : path_(std::move(path)) {}

  /// Touches nothing: which rows stay is known with the first that follows.
  void begin(const TrainerState& state) {
    has_begun_ = false;
    file_.reset();
    has_rows_ = false;
    const std::string waiting = std::exchange(waiting_, {}), before = std::exchange(kept_, std::string(kTableNames));
    // Rows that no file has got yet follow what was to stand before them, and not what is still there instead.
    const bool is_before_held = !waiting.empty() && !before.empty() && !is_in_file_;
    rows_until_try_ = 0;
    end_of_steps_ = kept_.size();
    is_in_file_ = false;
    std::error_code ignored;
    const bool is_there = std::filesystem::exists(path_, ignored);
    if (state.step > 0 && (is_there || !waiting.empty())) {
      const std::string text = is_before_held ? before : is_there ? whole_rows() : std::string(kTableNames);
      is_in_file_ = is_in_file_ && waiting.empty();
      keep_rows(text + waiting, state);
    }
    has_begun_ = true;
  }

  /// For rows that no training has begun for: they follow whatever is there.
  void begin_outside() {
    if (has_begun_) return;
    std::string text(kTableNames);
    if (std::filesystem::exists(path_)) {
      text = whole_rows();
      check_names(text);
    }
    kept_ = std::move(text);
    end_of_steps_ = kept_.size();
    has_begun_ = true;
  }

  /// Gives the row to the system, with those that it has refused before.
  void add(char type, const std::string& row) {
    // The evaluation of the last step is made again.
    if (!std::exchange(has_rows_, true) && type == 'v' && kept_.size() > end_of_steps_) {
      kept_.resize(end_of_steps_);
      is_in_file_ = false;
    }
    waiting_ += row;
    if (rows_until_try_ > 0 && --rows_until_try_ > 0) return;
    write(false);
  }

  void write(bool flushes) {
    try {
      if (file_ == nullptr) make_file();
      file_->append(waiting_);
      waiting_.clear();
      if (flushes) file_->flush();
    } catch (const DataError& error) {
      LOG_IF(WARNING, failures_ == 0) << "StatisticsCsv: training goes on; the rows are held until they can be "
                                      << "written: " << error.message();
      ++failures_;
      rows_until_try_ = kRowsBetweenTries;
    }
  }

  std::int64_t failures() const { return failures_; }

 private:
  /// What the file has, but for part of a row, of a process that was killed.
  std::string whole_rows() {
    std::string text = read_whole_file(path_, kMostStepRowsBytes, kCsv);
    is_in_file_ = text.ends_with('\n');
    text.resize(text.rfind('\n') + 1);
    return text;
  }

  void check_names(const std::string& text) const {
    SF_CHECK(text.starts_with(kTableNames), DataError, kCsv, ": '", path_, "' begins with '",
             text.substr(0, std::min<std::size_t>(text.find('\n'), 80)), "'; wanted '",
             kTableNames.substr(0, kTableNames.size() - 1), "'",
             hint("a training that goes on goes on in its file: give it that one, or the name of none"));
  }

  /// Those of steps before `state`, and of evaluations behind them.
  void keep_rows(const std::string& text, const TrainerState& state) {
    check_names(text);
    std::size_t end = kept_.size();
    while (end < text.size()) {
      const std::size_t next = text.find('\n', end) + 1;
      const StepRow row = step_row_of(text.substr(end, next - end - 1), path_);
      const bool is_done = row.epoch < state.epoch || (row.epoch == state.epoch && row.step <= state.step_in_epoch);
      if (row.type == 't' && !is_done) break;
      end = next;
      if (row.type == 't') end_of_steps_ = end;
    }
    is_in_file_ = is_in_file_ && end == text.size();
    kept_ = text.substr(0, end);
  }

  void make_file() {
    if (!is_in_file_) write_whole_file(path_, kept_, kCsv);
    file_ = std::make_unique<AppendFile>(path_, kCsv, ErrorCode::data, AppendCalls{}, AppendTo::existing_file);
    kept_ = {};
  }

  std::string path_;
  std::string kept_;              // what the file is to hold before the first row; empty once it does
  std::size_t end_of_steps_ = 0;  // in it, behind the last row of a step
  bool is_in_file_ = false;       // whether the file holds just that
  bool has_begun_ = false;        // what the file is to begin with is known
  bool has_rows_ = false;         // that followed
  std::string waiting_;           // rows that are not written yet
  int rows_until_try_ = 0;        // after a refusal
  std::unique_ptr<AppendFile> file_;
  std::int64_t failures_ = 0;
};

StatisticsCsv::StatisticsCsv(const std::string& path, Where where) {
  call_at(where, [&] {
    check_place(path, kCsv);
    table_ = std::make_unique<Table>(absolute_path(path).string());
  });
}

StatisticsCsv::~StatisticsCsv() = default;

std::int64_t StatisticsCsv::failures() const {
  return table_->failures();
}

void StatisticsCsv::on_begin(const TrainerState& state) {
  table_->begin(state);
  differences_.begin(state.session);
}

// What others do between two steps, evaluations for one, is not the step's.
void StatisticsCsv::on_step_begin(const TrainerState& state, Feeds&) {
  differences_.begin(state.session);
}

void StatisticsCsv::add_row(char type, const TrainerState& state) {
  const StepStatistics step = differences_.step(state.session, state.step_seconds);
  table_->add(type, text_of(type, ',', state.epoch, ',', state.step_in_epoch, ',', step.duration, ',', step.allocs, ',',
                            step.reclaim_ones, ',', step.reclaim_alls, ',', step.gib_reclaimed, '\n'));
}

void StatisticsCsv::on_step(const TrainerState& state) {
  add_row('t', state);
}

void StatisticsCsv::on_evaluation_step(const TrainerState& state) {
  if (state.run == nullptr) table_->begin_outside();
  add_row('v', state);
}

void StatisticsCsv::on_epoch(const TrainerState&) {
  table_->write(true);
}

void StatisticsCsv::on_end(const TrainerState&) {
  table_->write(true);
}

StatisticsAverages::StatisticsAverages(const std::string& path, StatisticsAveragesOptions options, Where where)
    : path_(absolute_path(path).string()), options_(options) {
  call_at(where, [&] {
    SF_CHECK(options_.image_size >= 1 && (options_.dims == 2 || options_.dims == 3), ArgumentError,
             "StatisticsAverages: image_size is ", options_.image_size, " and dims ", options_.dims,
             "; wanted 1 pixel or more, and 2 or 3 dimensions");
    SF_CHECK(options_.start_epoch >= 0 && options_.start_batch >= 0, ArgumentError,
             "StatisticsAverages: start_epoch and start_batch count from 0");
    check_place(path_, "StatisticsAverages");
  });
}

void StatisticsAverages::on_begin(const TrainerState&) {
  steps_.clear();
  batch_size_ = 0;
}

void StatisticsAverages::on_step_begin(const TrainerState& state, Feeds&) {
  differences_.begin(state.session);
}

void StatisticsAverages::on_step(const TrainerState& state) {
  const StepStatistics step = differences_.step(state.session, state.step_seconds);
  if (state.epoch - 1 < options_.start_epoch || state.step_in_epoch - 1 < options_.start_batch) return;
  // The last batch of a pass may be smaller: the first that counts is taken for all.
  if (batch_size_ == 0) batch_size_ = state.batch_size;
  if (state.batch_size == batch_size_) steps_.push_back(step);
}

std::string StatisticsAverages::row() const {
  const auto numbers = [&](double (*number)(const StepStatistics&)) {
    std::vector<double> found;
    for (const StepStatistics& step : steps_) found.push_back(number(step));
    return found;
  };
  const std::vector<double> durations = numbers([](const StepStatistics& step) { return step.duration; });
  const double megapixels =
      static_cast<double>(batch_size_) * std::pow(static_cast<double>(options_.image_size), options_.dims) / 1e6;
  const auto rate = [&](double seconds) { return seconds > 0 ? megapixels / seconds : 0; };
  const auto mean = [&](double (*number)(const StepStatistics&)) { return mean_of(numbers(number)); };
  return text_of(options_.image_size, ',', rate(mean_of(durations)), ',', rate(median_of(durations)), ',',
                 mean([](const StepStatistics& step) { return step.gib_reclaimed; }), ',',
                 mean([](const StepStatistics& step) { return static_cast<double>(step.allocs); }), ',',
                 mean_of(durations), ',', steps_.size(), ',',
                 mean([](const StepStatistics& step) { return static_cast<double>(step.reclaim_alls); }), ',',
                 mean([](const StepStatistics& step) { return static_cast<double>(step.reclaim_ones); }), '\n');
}

void StatisticsAverages::on_end(const TrainerState&) {
  const std::string unit = options_.dims == 3 ? "megavoxels/sec" : "megapixels/sec";
  std::string table = text_of("image_size,", unit, ",median ", unit,
                              ",GiB reclaimed,allocs,duration,num_steps,reclaimAlls,reclaimOnes\n");
  if (std::filesystem::exists(path_)) table = read_whole_file(path_, kMostTableBytes, "StatisticsAverages");
  write_whole_file(path_, table + row(), "StatisticsAverages");
}

}  // namespace sectionflow

#include "train/statistics_log.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

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

StatisticsCsv::StatisticsCsv(std::string path, Where where) : path_(std::move(path)) {
  call_at(where, [&] { check_writable(path_, "StatisticsCsv"); });
}

void StatisticsCsv::on_begin(const TrainerState& state) {
  rows_ = "step type,epoch,step,duration,allocs,reclaimOnes,reclaimAlls,GiB reclaimed\n";
  is_written_ = false;
  differences_.begin(state.session);
}

// What others do between two steps, evaluations for one, is not the step's.
void StatisticsCsv::on_step_begin(const TrainerState& state, Feeds&) {
  differences_.begin(state.session);
}

void StatisticsCsv::add_row(char type, const TrainerState& state) {
  const StepStatistics step = differences_.step(state.session, state.step_seconds);
  rows_ += text_of(type, ',', state.epoch, ',', state.step_in_epoch, ',', step.duration, ',', step.allocs, ',',
                   step.reclaim_ones, ',', step.reclaim_alls, ',', step.gib_reclaimed, '\n');
  is_written_ = false;
}

void StatisticsCsv::on_step(const TrainerState& state) {
  add_row('t', state);
}

void StatisticsCsv::on_evaluation_step(const TrainerState& state) {
  add_row('v', state);
}

void StatisticsCsv::write() {
  if (is_written_) return;
  write_whole_file(path_, rows_, "StatisticsCsv");
  is_written_ = true;
}

void StatisticsCsv::on_epoch(const TrainerState&) {
  write();
}

void StatisticsCsv::on_end(const TrainerState&) {
  write();
}

StatisticsAverages::StatisticsAverages(std::string path, StatisticsAveragesOptions options, Where where)
    : path_(std::move(path)), options_(options) {
  call_at(where, [&] {
    SF_CHECK(options_.image_size >= 1 && (options_.dims == 2 || options_.dims == 3), ArgumentError,
             "StatisticsAverages: image_size is ", options_.image_size, " and dims ", options_.dims,
             "; wanted 1 pixel or more, and 2 or 3 dimensions");
    SF_CHECK(options_.start_epoch >= 0 && options_.start_batch >= 0, ArgumentError,
             "StatisticsAverages: start_epoch and start_batch count from 0");
    check_writable(path_, "StatisticsAverages");
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

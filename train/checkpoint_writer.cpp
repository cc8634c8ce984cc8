#include "train/checkpoint_writer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "base/error.h"

namespace sectionflow {
namespace {

/// For the manifest, folders and what file systems round up to.
constexpr std::uint64_t kSpareBytes = 64_KiB;
/// Of a manifest: a number of 63 bits.
constexpr std::uint64_t kMostSequence = std::numeric_limits<std::int64_t>::max();

}  // namespace

void CheckpointWriter::look_at_folder() {
  if (has_looked_) return;
  known_.clear();
  for (std::int64_t step : folder_.steps()) {
    try {
      const CheckpointManifest manifest = read_checkpoint_manifest(folder_.path_of(step));
      known_[step] = {manifest.sequence, manifest.metrics};
    } catch (const DataError&) {
    }
  }
  has_looked_ = true;
}

void CheckpointWriter::open() {
  if (folder_.open_for_writing()) has_looked_ = false;
}

void CheckpointWriter::open_early() {
  open();
  folder_.check_writable();
}

std::string CheckpointWriter::write(CheckpointJob job) {
  open();
  look_at_folder();
  const std::uint64_t free_bytes = folder_.free_bytes();
  SF_CHECK(free_bytes >= kSpareBytes && job.num_bytes <= free_bytes - kSpareBytes, DataError, "Checkpoints: '",
           folder_.path().string(), "': a checkpoint takes ", bytes_text(job.num_bytes), " and ",
           bytes_text(free_bytes), " are free",
           hint("make space there, or choose another folder; no other file has changed"));
  const std::int64_t step = job.manifest.step;
  std::uint64_t last = 0;
  for (const auto& [other, known] : known_) last = std::max(last, known.sequence);
  // Beyond it no manifest is read; the next checkpoint must not count as the oldest, which is deleted first.
  SF_CHECK_CODE(last < kMostSequence, DataError, ErrorCode::checkpoint_damaged, "Checkpoints: '",
                folder_.path().string(), "': a checkpoint there has the sequence ", last,
                ", behind which there is none",
                hint("that is no number of checkpoints that were written: save to another folder"));
  job.manifest.sequence = last + 1;
  Known known{job.manifest.sequence, job.manifest.metrics};
  // A write that fails may have put the checkpoint in its place all the same.
  has_looked_ = false;
  folder_.write(std::move(job.manifest),
                [&](const FileSink& sink) { return stream_safetensors(sink, job.types, job.tensor_of, job.metadata); });
  has_looked_ = true;
  known_[step] = std::move(known);
  folder_.set_latest(step);
  return delete_old();
}

/// The step of the best checkpoint; -1 where none has the metric.
std::int64_t CheckpointWriter::best() const {
  std::int64_t best = -1;
  double best_value = 0;
  for (const auto& [step, known] : known_) {
    const auto metric = known.metrics.find(options_.best_metric);
    if (metric == known.metrics.end() || std::isnan(metric->second)) continue;
    const double value = options_.higher_is_better ? metric->second : -metric->second;
    if (best >= 0 && value <= best_value) continue;
    best = step;
    best_value = value;
  }
  return best;
}

std::string CheckpointWriter::delete_old() {
  std::vector<std::pair<std::uint64_t, std::int64_t>> newest_first;
  for (const auto& [step, known] : known_) newest_first.emplace_back(known.sequence, step);
  std::sort(newest_first.rbegin(), newest_first.rend());
  const std::int64_t best_step = best();
  std::string problem;
  for (std::size_t i = static_cast<std::size_t>(options_.keep); i < newest_first.size(); ++i) {
    const std::int64_t step = newest_first[i].second;
    if (step == best_step) continue;
    try {
      folder_.remove(step);
      known_.erase(step);
    } catch (const DataError& error) {
      problem = error.message();
    }
  }
  return problem;
}

}  // namespace sectionflow

#include "swap/swap_notes.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "base/bytes.h"

namespace sectionflow {
namespace {

constexpr std::size_t kMostLines = 8;

std::string tensors(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " tensor" : " tensors");
}

/// "swap: 12 tensors, 40.0 MiB, offloaded; expected: ..."
std::string summary(const SwapProblem& problem, const std::vector<Decision>& decisions, const Prediction& prediction) {
  std::size_t bytes = 0, disk_bytes = 0, on_disk = 0;
  for (const Decision& decision : decisions) {
    const std::size_t of_this = problem.candidates[static_cast<std::size_t>(decision.candidate)].stretch.bytes;
    bytes += of_this;
    if (decision.on_disk) disk_bytes += of_this;
    on_disk += decision.on_disk ? 1U : 0U;
  }
  std::string text = "swap: " + tensors(decisions.size()) + ", " + bytes_text(bytes) + ", offloaded";
  if (on_disk > 0) text += ", " + std::to_string(on_disk) + " of them, " + bytes_text(disk_bytes) + ", to disk";
  const auto hidden = static_cast<int>(prediction.hidden_share() * 100 + 0.5);
  return text + "; expected: a cycle of " + milliseconds(prediction.seconds) + ", " +
         milliseconds(prediction.stall_seconds) + " of it for swapping; copies take " +
         milliseconds(prediction.copy_seconds) + ", " + std::to_string(hidden) + " % of it hidden";
}

std::string line(const SwapProblem& problem, const Decision& decision) {
  const OffloadCandidate& candidate = problem.candidates[static_cast<std::size_t>(decision.candidate)];
  const IdleStretch& stretch = candidate.stretch;
  std::string text = "swap: '" + stretch.value.name() + "' (" + bytes_text(stretch.bytes) + ") is offloaded to " +
                     (decision.on_disk ? "disk" : "host memory");
  if (stretch.after >= 0) text += " from " + problem.step_names[static_cast<std::size_t>(stretch.after)];
  text += " until " + problem.step_names[static_cast<std::size_t>(stretch.before)];
  const bool forced = candidate.placement != Placement::automatic;
  return text + ": idle for " + std::to_string(stretch.before - stretch.after - 1) + " steps" +
         (forced ? ", as asked for" : "");
}

}  // namespace

std::string milliseconds(double seconds) {
  std::ostringstream stream;
  stream << std::fixed << std::setprecision(seconds < 0.01 ? 3 : 1) << seconds * 1e3 << " ms";
  return stream.str();
}

std::vector<std::string> swap_notes(const SwapProblem& problem, const std::vector<Decision>& decisions,
                                    const Prediction& prediction) {
  if (decisions.empty()) return {};
  std::vector<Decision> largest = decisions;
  const auto bytes_of = [&](const Decision& decision) {
    return problem.candidates[static_cast<std::size_t>(decision.candidate)].stretch.bytes;
  };
  std::stable_sort(largest.begin(), largest.end(),
                   [&](const Decision& a, const Decision& b) { return bytes_of(a) > bytes_of(b); });
  std::vector<std::string> notes = {summary(problem, decisions, prediction)};
  std::size_t others = 0;
  for (std::size_t i = 0; i < largest.size(); ++i) {
    if (i < kMostLines) {
      notes.push_back(line(problem, largest[i]));
    } else {
      others += bytes_of(largest[i]);
    }
  }
  if (largest.size() > kMostLines) {
    notes.push_back("swap: and " + tensors(largest.size() - kMostLines) + " more, " + bytes_text(others));
  }
  return notes;
}

}  // namespace sectionflow

#include "swap/step_profile.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "base/bytes.h"

namespace sectionflow {
namespace {

/// What a profile in a file may say.
constexpr double kSlowest = 1, kFastest = 1e18, kLongest = 1e6;
/// Of feeds and fetches, which may be no more than a loss, fewer bytes tell nothing of what kernels stream.
constexpr double kTellingBytes = 1_MiB;
/// A thread that copies as fast as the throttle lets it may be able to go faster.
constexpr double kShareOfThrottle = 0.95;

std::string key_of(const ExecutedSchedule& executed, const Step& step) {
  return kernel_key(executed.graph, step, *executed.kernels[static_cast<std::size_t>(step.slot)]);
}

StepTimes times_of(const ExecutedSchedule& executed, const Profile& profile) {
  return {executed.graph, executed.kernels, executed.carrier, executed.link_bandwidth, profile};
}

/// Bytes that steps of one kind have moved, and the seconds that it took besides what every step takes.
struct Moved {
  double bytes = 0, seconds = 0;

  void set(double& rate) const {
    if (bytes > 0 && seconds > 0) rate = std::clamp(bytes / seconds, kSlowest, kFastest);
  }
};

/// Without the throttle; nothing where it hides how fast the copy is.
Moved unthrottled(const ExecutedSchedule& executed, Moved moved) {
  if (executed.link_bandwidth <= 0) return moved;
  const double throttled = moved.bytes / executed.link_bandwidth;
  if (executed.carrier == CopyCarrier::team) return {moved.bytes, moved.seconds - throttled};
  return throttled >= kShareOfThrottle * moved.seconds ? Moved{} : moved;
}

std::size_t moved_bytes(const Step& step, const Schedule& schedule) {
  if (is_transfer(step.kind)) return carried_buffer(step, schedule).bytes;
  const Operand& operand = step.kind == StepKind::feed ? step.outputs[0] : step.inputs[0];
  if (operand.kind != Operand::Kind::buffer) return 0;
  return schedule.buffers[static_cast<std::size_t>(operand.index)].bytes;
}

double middle_of(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

/// All but what every step takes, which copies are counted with.
void scale(Profile& profile, double factor) {
  for (double* rate : {&profile.flops, &profile.memory_bandwidth, &profile.link_out, &profile.link_in,
                       &profile.disk_out, &profile.disk_in}) {
    *rate = std::clamp(*rate / factor, kSlowest, kFastest);
  }
  for (auto& [key, seconds] : profile.kernel_seconds) seconds = std::min(seconds * factor, kLongest);
}

/// The share of the kernels' seconds that they would have taken without copies beside them, which planners count apart.
double share_without_copies(const ExecutedSchedule& executed, const Profile& profile, double took) {
  constexpr double kLeast = 0.5;
  const std::vector<double> drags = times_of(executed, profile).drags_of(executed.schedule);
  const double drag = std::accumulate(drags.begin(), drags.end(), 0.0);
  return took > 0 ? std::max(1 - drag / took, kLeast) : 1;
}

/// By itself, or by its first execution, or by that of the whole, from which StepTimes has the others.
bool is_measured(const ExecutedSchedule& executed, Step step, const Profile& profile) {
  const auto is_known = [&] { return profile.kernel_seconds.contains(key_of(executed, step)); };
  if (is_known()) return true;
  step.replay = false;
  if (is_known()) return true;
  step.part = 0, step.parts = 1;
  return is_known();
}

}  // namespace

double measured_share(const ExecutedSchedule& executed, const Profile& profile) {
  const std::vector<double> seconds = times_of(executed, profile).of(executed.schedule);
  double all = 0, measured = 0;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const Step& step = executed.schedule.steps[i];
    if (step.kind != StepKind::compute) continue;
    all += seconds[i];
    if (is_measured(executed, step, profile)) measured += seconds[i];
  }
  return all > 0 ? measured / all : 1;
}

Profile corrected_profile(const ExecutedSchedule& executed, const std::vector<double>& seconds, const Profile& before) {
  const Schedule& schedule = executed.schedule;
  const std::vector<double> expected = times_of(executed, before).of(schedule);
  std::map<std::string, std::vector<double>> kernels;
  std::map<StepKind, Moved> moved;
  double took = 0, was_to_take = 0;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (step.kind == StepKind::compute) {
      kernels[key_of(executed, step)].push_back(std::min(seconds[i], kLongest));
      took += seconds[i];
      was_to_take += expected[i];
    } else if (step.kind != StepKind::hold) {
      Moved& kind = moved[step.kind];
      kind.bytes += static_cast<double>(moved_bytes(step, schedule));
      kind.seconds += seconds[i] - before.launch_seconds;
    }
  }
  Profile profile = before;
  const double alone = share_without_copies(executed, before, took);
  if (took > 0 && was_to_take > 0) scale(profile, alone * took / was_to_take);
  for (auto& [key, samples] : kernels) profile.kernel_seconds[key] = alone * middle_of(std::move(samples));
  Moved feeds = moved[StepKind::feed];
  feeds.bytes += moved[StepKind::fetch].bytes;
  feeds.seconds += moved[StepKind::fetch].seconds;
  if (feeds.bytes >= kTellingBytes) feeds.set(profile.memory_bandwidth);
  unthrottled(executed, moved[StepKind::copy_out]).set(profile.link_out);
  unthrottled(executed, moved[StepKind::copy_in]).set(profile.link_in);
  moved[StepKind::disk_write].set(profile.disk_out);
  moved[StepKind::disk_read].set(profile.disk_in);
  return profile;
}

}  // namespace sectionflow

#pragma once

namespace sectionflow {

/// While it lives, parallel regions that the calling thread begins get a team of exactly so many threads, and each of
/// these flushes denormal numbers to zero. Kernels are made for one size of the team; some of oneDNN's wait for all of
/// its threads, for ever where OpenMP gives fewer. OpenMP's settings are a thread's own: this one's are given back in
/// the end. Begins and ends on one thread.
class ComputeTeam {
 public:
  /// Throws: DeviceError where OpenMP cannot give that team: to more than one thread inside of a parallel region, or
  /// beyond its limit of threads. Nothing has changed then.
  explicit ComputeTeam(int threads);
  ComputeTeam(const ComputeTeam&) = delete;
  ComputeTeam& operator=(const ComputeTeam&) = delete;

 private:
  /// The calling thread's settings as they were.
  struct Settings {
    Settings();
    ~Settings();
    Settings(const Settings&) = delete;
    Settings& operator=(const Settings&) = delete;

    int num_threads, dynamic, max_active_levels;
    unsigned control;  // of SSE arithmetic
  };

  Settings previous_;
};

}  // namespace sectionflow

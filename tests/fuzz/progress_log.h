#pragma once

#include <chrono>
#include <cstdint>
#include <iostream>

namespace sectionflow::testing {

/// Says how far it is, once in a few seconds.
class ProgressLog {
 public:
  explicit ProgressLog(std::uint64_t total) : total_(total) {}
  void seed_done(int failures) {
    ++done_;
    const auto now = std::chrono::steady_clock::now();
    if (done_ < total_ && now - shown_ < std::chrono::seconds(5)) return;
    shown_ = now;
    const std::chrono::duration<double> took = now - start_;
    std::cerr << done_ << " of " << total_ << " seeds, " << failures << " failed, "
              << static_cast<std::int64_t>(took.count()) << " s\n";
  }

 private:
  std::uint64_t total_, done_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), shown_ = start_;
};

}  // namespace sectionflow::testing

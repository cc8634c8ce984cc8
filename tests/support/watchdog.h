#pragma once

#include <string>

namespace sectionflow::testing {

/// When something takes longer than `seconds` or crashes, a line on stderr says what was going on, and the process
/// ends: with a status of 2 where it hangs. One a process.
class Watchdog {
 public:
  explicit Watchdog(unsigned seconds);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// What goes on from here on; its time begins.
  static void watch(const std::string& what);
  /// Nothing goes on that could hang.
  static void idle();
};

}  // namespace sectionflow::testing

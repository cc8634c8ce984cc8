#pragma once

#include <string>

namespace sectionflow::testing {

/// Ends the process, with a status of 2 and a line on stderr that says what was going on, when something takes longer
/// than `seconds` or crashes. One a process.
class Watchdog {
 public:
  explicit Watchdog(unsigned seconds);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// What goes on from here on; its time begins.
  static void watch(const std::string& what);
  /// Nothing goes on that could hang.
  static void rest();
};

}  // namespace sectionflow::testing

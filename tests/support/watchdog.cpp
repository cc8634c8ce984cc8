#include "tests/support/watchdog.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>

namespace sectionflow::testing {
namespace {

constexpr std::array<int, 6> kSignals = {SIGALRM, SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL};
constexpr std::size_t kMostBytes = 65536;

unsigned most_seconds = 0;
std::size_t length = 0;
char told[kMostBytes];

/// Calls only what a signal handler may call.
void bark(int signal) {
  static constexpr char kHangs[] = "it hangs: ", kCrashes[] = "it crashes: ";
  const bool hangs = signal == SIGALRM;
  (void)!write(STDERR_FILENO, hangs ? kHangs : kCrashes, hangs ? sizeof(kHangs) - 1 : sizeof(kCrashes) - 1);
  (void)!write(STDERR_FILENO, told, length);
  (void)!write(STDERR_FILENO, "\n", 1);
  _exit(2);
}

}  // namespace

Watchdog::Watchdog(unsigned seconds) {
  most_seconds = seconds;
  for (int signal : kSignals) std::signal(signal, bark);
}

Watchdog::~Watchdog() {
  rest();
  for (int signal : kSignals) std::signal(signal, SIG_DFL);
}

void Watchdog::watch(const std::string& what) {
  length = 0;
  std::memcpy(told, what.data(), std::min(what.size(), kMostBytes));
  length = std::min(what.size(), kMostBytes);
  alarm(most_seconds);
}

void Watchdog::rest() {
  alarm(0);
}

}  // namespace sectionflow::testing

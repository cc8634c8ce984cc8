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
std::array<struct sigaction, kSignals.size()> before{};

void restore() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before[i], nullptr);
}

/// Calls only what a signal handler may call.
void bark(int signal, siginfo_t* info, void*) {
  static constexpr char kHangs[] = "it hangs: ", kCrashes[] = "it crashes: ";
  const bool hangs = signal == SIGALRM;
  (void)!write(STDERR_FILENO, hangs ? kHangs : kCrashes, hangs ? sizeof(kHangs) - 1 : sizeof(kCrashes) - 1);
  (void)!write(STDERR_FILENO, told, length);
  (void)!write(STDERR_FILENO, "\n", 1);
  if (hangs) _exit(2);
  // A sanitizer may have more to say: what has crashed does so again.
  restore();
  if (info->si_code <= 0) raise(signal);
}

}  // namespace

Watchdog::Watchdog(unsigned seconds) {
  most_seconds = seconds;
  struct sigaction action {};
  action.sa_sigaction = bark;
  action.sa_flags = SA_SIGINFO;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before[i]);
}

Watchdog::~Watchdog() {
  idle();
  restore();
}

void Watchdog::watch(const std::string& what) {
  length = 0;
  std::memcpy(told, what.data(), std::min(what.size(), kMostBytes));
  length = std::min(what.size(), kMostBytes);
  alarm(most_seconds);
}

void Watchdog::idle() {
  alarm(0);
}

}  // namespace sectionflow::testing

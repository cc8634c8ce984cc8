#include "base/held_signals.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace sectionflow {
namespace {

/// Whether the calling thread takes no such signal at present.
bool is_held(int signal) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

TEST(HeldSignals, WaitButForThoseOfAThreadsOwnFaults) {
  ASSERT_FALSE(is_held(SIGTERM));
  {
    const HeldSignals held;
    for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGPROF, SIGCHLD, SIGALRM}) EXPECT_TRUE(is_held(signal));
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) EXPECT_FALSE(is_held(signal));
  }
  EXPECT_FALSE(is_held(SIGTERM));
}

TEST(HeldSignals, ThoseThatTheCallerHoldsStayHeld) {
  sigset_t mine, before;
  sigemptyset(&mine);
  sigaddset(&mine, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &mine, &before);
  { const HeldSignals outer, inner; }
  EXPECT_TRUE(is_held(SIGUSR2));
  EXPECT_FALSE(is_held(SIGUSR1));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(HeldSignals, ThreadsThatAreBegunMeanwhileHoldThemForGood) {
  bool are_held = false;
  std::thread thread = with_held_signals([&] { return std::thread([&] { are_held = is_held(SIGTERM); }); });
  EXPECT_FALSE(is_held(SIGTERM)) << "the maker's are as they were";
  thread.join();
  EXPECT_TRUE(are_held);
  EXPECT_THROW(with_held_signals([]() -> int { throw std::runtime_error("no thread"); }), std::runtime_error);
  EXPECT_FALSE(is_held(SIGTERM));
}

}  // namespace
}  // namespace sectionflow

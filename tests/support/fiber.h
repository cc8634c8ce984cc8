#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>

namespace sectionflow::testing_support {

/// A function that runs on a stack of its own and may be left in its middle. Stacks are used again by later fibers.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(Fiber&&) noexcept;
  Fiber& operator=(Fiber&&) noexcept;

  /// Makes the fiber ready to run `body` from its beginning. What an unfinished body had on its stack is dropped
  /// without destructors.
  void start(std::function<void(Fiber&)> body);
  /// Runs until the body pauses (true) or has ended (false). Throws: what the body threw.
  bool resume();
  /// Called by the body: back to who resumed it.
  void pause();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sectionflow::testing_support

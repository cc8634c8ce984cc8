#include "tests/support/fiber.h"

#include <boost/context/detail/fcontext.hpp>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#include <sanitizer/tsan_interface.h>
#define SF_TSAN_FIBERS
#endif
#endif

namespace sectionflow::testing_support {

namespace context = boost::context::detail;

namespace {

constexpr std::size_t kStackBytes = std::size_t{128} << 10;

using Stack = std::unique_ptr<std::byte[]>;

/// Stacks of fibers that are no more.
std::vector<Stack>& free_stacks() {
  static thread_local std::vector<Stack> stacks;
  return stacks;
}
Stack take_stack() {
  std::vector<Stack>& stacks = free_stacks();
  if (stacks.empty()) return Stack(new std::byte[kStackBytes]);
  Stack stack = std::move(stacks.back());
  stacks.pop_back();
  return stack;
}

}  // namespace

struct Fiber::State {
  Stack stack = take_stack();
  context::fcontext_t inside = nullptr, outside = nullptr;
  std::function<void(Fiber&)> body;
  Fiber* fiber = nullptr;
  std::exception_ptr error;
  bool ended = true;
  // What the sanitizers must be told about stacks that change.
  void* fake_inside = nullptr;
  void* fake_outside = nullptr;
  const void* outside_bottom = nullptr;
  std::size_t outside_bytes = 0;
#if defined(SF_TSAN_FIBERS)
  void* tsan_inside = __tsan_create_fiber(0);
  void* tsan_outside = nullptr;
#endif

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
#if defined(SF_TSAN_FIBERS)
    __tsan_destroy_fiber(tsan_inside);
#endif
    free_stacks().push_back(std::move(stack));
  }

  void enter() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&fake_outside, stack.get(), kStackBytes);
#endif
#if defined(SF_TSAN_FIBERS)
    tsan_outside = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(tsan_inside, 0);
#endif
    inside = context::jump_fcontext(inside, this).fctx;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_outside, nullptr, nullptr);
#endif
  }
  void arrived() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_inside, &outside_bottom, &outside_bytes);
#endif
  }
  void leave() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(ended ? nullptr : &fake_inside, outside_bottom, outside_bytes);
#endif
#if defined(SF_TSAN_FIBERS)
    __tsan_switch_to_fiber(tsan_outside, 0);
#endif
    outside = context::jump_fcontext(outside, nullptr).fctx;
    arrived();
  }

  static void run(context::transfer_t transfer) {
    auto& state = *static_cast<State*>(transfer.data);
    state.outside = transfer.fctx;
    state.arrived();
    try {
      state.body(*state.fiber);
    } catch (...) {
      state.error = std::current_exception();
    }
    state.ended = true;
    state.leave();
  }
};

Fiber::Fiber() : state_(std::make_unique<State>()) {}
Fiber::~Fiber() = default;
Fiber::Fiber(Fiber&&) noexcept = default;
Fiber& Fiber::operator=(Fiber&&) noexcept = default;

void Fiber::start(std::function<void(Fiber&)> body) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(state_->stack.get(), kStackBytes);
#endif
  state_->body = std::move(body);
  state_->fiber = this;
  state_->error = nullptr;
  state_->ended = false;
  state_->fake_inside = nullptr;
  state_->inside = context::make_fcontext(state_->stack.get() + kStackBytes, kStackBytes, State::run);
}

bool Fiber::resume() {
  state_->enter();
  if (state_->error) std::rethrow_exception(std::exchange(state_->error, nullptr));
  return !state_->ended;
}

void Fiber::pause() {
  state_->leave();
}

}  // namespace sectionflow::testing_support

#include "tests/support/gpu_blocks.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "base/error.h"
#include "tests/support/fiber.h"

namespace sectionflow::testing_support {
namespace {

constexpr int kNobody = -1, kSeveral = -2;

/// The shared memory of a block, with who wrote and read each part of it since the last barrier. Parts are words until
/// somebody touches less than one, from then on bytes.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes) : bytes_(bytes), notes_((bytes + kWord - 1) / kWord) {}

  /// Of the next block: nothing is written yet.
  void clear() { first_phase_ = ++phase_; }
  void pass_barrier() { ++phase_; }

  void check_range(std::size_t offset, std::size_t count) const {
    SF_CHECK(offset + count <= bytes_.size(), InternalError, "shared memory: bytes ", offset, " to ", offset + count,
             " of ", bytes_.size());
  }
  void read(int thread, std::size_t offset, void* to, std::size_t count) {
    check_range(offset, count);
    for (std::size_t i = first_part(offset, count), end = (offset + count) / part_; i < end; ++i) {
      Note& note = renewed(i);
      SF_CHECK(note.written >= first_phase_, InternalError, "shared memory: thread ", thread, " reads byte ", i * part_,
               ", which nobody has written");
      SF_CHECK(note.writer == kNobody || note.writer == thread, InternalError, "shared memory: thread ", thread,
               " reads byte ", i * part_, ", which thread ", note.writer, " has written since the last barrier");
      note.reader = note.reader == kNobody || note.reader == thread ? thread : kSeveral;
    }
    std::memcpy(to, bytes_.data() + offset, count);
  }
  void write(int thread, std::size_t offset, const void* from, std::size_t count) {
    check_range(offset, count);
    for (std::size_t i = first_part(offset, count), end = (offset + count) / part_; i < end; ++i) {
      Note& note = renewed(i);
      SF_CHECK(note.writer == kNobody || note.writer == thread, InternalError, "shared memory: threads ", thread,
               " and ", note.writer, " write byte ", i * part_, " without a barrier between them");
      SF_CHECK(note.reader == kNobody || note.reader == thread, InternalError, "shared memory: thread ", thread,
               " writes byte ", i * part_, ", which another has read since the last barrier");
      note.writer = thread;
      note.written = phase_;
    }
    std::memcpy(bytes_.data() + offset, from, count);
  }

 private:
  static constexpr std::size_t kWord = 4;
  struct Note {
    std::int64_t phase = 0, written = 0;  // when it was renewed, and written last
    int writer = kNobody, reader = kNobody;
  };
  /// The number of the part at `offset`, where `count` bytes are a number of parts.
  std::size_t first_part(std::size_t offset, std::size_t count) {
    if ((offset | count) % part_ != 0) {
      std::vector<Note> of_bytes;
      for (const Note& note : notes_) of_bytes.insert(of_bytes.end(), kWord, note);
      notes_ = std::move(of_bytes);
      part_ = 1;
    }
    return offset / part_;
  }
  Note& renewed(std::size_t i) {
    Note& note = notes_[i];
    if (note.phase != phase_) {
      note.phase = phase_;
      note.writer = note.reader = kNobody;
    }
    return note;
  }

  std::vector<std::byte> bytes_;
  std::vector<Note> notes_;
  std::size_t part_ = kWord;
  std::int64_t phase_ = 0, first_phase_ = 0;  // barriers passed; of this block the first
};

enum class Waits { no, at_barrier, for_warp, ended };

class Thread final : public gpu::HostThread {
 public:
  Thread(const gpu::LaunchShape& shape, int index, SharedMemory& memory) : memory_(memory) {
    num_blocks_ = shape.blocks;
    block_size_ = shape.threads;
    index_ = index;
  }

  void start(std::int64_t block, const std::function<void(gpu::HostThread&)>& body) {
    block_ = block;
    waits = Waits::no;
    fiber_.start([this, &body](Fiber&) { body(*this); });
  }
  void resume() {
    if (!fiber_.resume()) waits = Waits::ended;
  }
  void barrier() override { pause(Waits::at_barrier); }

  Waits waits = Waits::ended;
  // What an exchange brings and gets, which lies on the fiber's stack, and of which lane; 0: of all.
  const void* given = nullptr;
  void* taken = nullptr;
  std::size_t given_bytes = 0;
  int lane_mask = 0;

 private:
  void pause(Waits why) {
    waits = why;
    fiber_.pause();
  }
  void exchange(const void* value, void* other, std::size_t bytes, int mask) override {
    SF_CHECK(mask > 0 && mask < gpu::kWarp, InternalError, "shuffle_xor: mask ", mask);
    meet_warp(value, other, bytes, mask);
  }
  void gather(const void* value, void* all, std::size_t bytes) override { meet_warp(value, all, bytes, 0); }
  void meet_warp(const void* value, void* others, std::size_t bytes, int mask) {
    given = value;
    taken = others;
    given_bytes = bytes;
    lane_mask = mask;
    pause(Waits::for_warp);
  }
  void read_shared(std::size_t offset, void* value, std::size_t bytes) override {
    memory_.read(index_, offset, value, bytes);
  }
  void write_shared(std::size_t offset, const void* value, std::size_t bytes) override {
    memory_.write(index_, offset, value, bytes);
  }
  void check_shared_range(std::size_t offset, std::size_t bytes, std::size_t alignment) override {
    memory_.check_range(offset, bytes);
    SF_CHECK(offset % alignment == 0, InternalError, "shared memory: byte ", offset, " is no multiple of ", alignment);
  }
  void check_index(std::int64_t index, std::int64_t count) override {
    SF_CHECK(index >= 0 && index < count, InternalError, "shared memory: element ", index, " of ", count);
  }

  SharedMemory& memory_;
  Fiber fiber_;
};

class BlockEmulator {
 public:
  BlockEmulator(const gpu::LaunchShape& shape, const std::function<void(gpu::HostThread&)>& body, std::uint64_t seed)
      : shape_(shape), body_(body), memory_(shape.shared_bytes), random_(seed) {
    threads_.reserve(static_cast<std::size_t>(shape.threads));
    for (int i = 0; i < shape.threads; ++i) threads_.emplace_back(shape, i, memory_);
  }

  void execute(std::int64_t block) {
    memory_.clear();
    for (Thread& thread : threads_) thread.start(block, body_);
    std::vector<int> turns(threads_.size());
    std::iota(turns.begin(), turns.end(), 0);
    while (true) {
      std::shuffle(turns.begin(), turns.end(), random_);
      bool ran = false;
      for (int turn : turns) {
        Thread& thread = threads_[static_cast<std::size_t>(turn)];
        while (thread.waits == Waits::no) {
          ran = true;
          thread.resume();
          if (thread.waits == Waits::for_warp) exchange_if_whole(turn / gpu::kWarp);
        }
      }
      if (ran) continue;
      if (count(Waits::ended) == shape_.threads) return;
      SF_CHECK(count(Waits::at_barrier) == shape_.threads, InternalError, "block ", block, ": ",
               count(Waits::at_barrier), " threads wait at a barrier, ", count(Waits::for_warp), " for their warp and ",
               count(Waits::ended), " have ended, of ", shape_.threads);
      memory_.pass_barrier();
      for (Thread& thread : threads_) thread.waits = Waits::no;
    }
  }

 private:
  int count(Waits waits) const {
    return static_cast<int>(
        std::count_if(threads_.begin(), threads_.end(), [=](const Thread& thread) { return thread.waits == waits; }));
  }
  void exchange_if_whole(int warp) {
    const auto first = threads_.begin() + warp * gpu::kWarp;
    const auto last = first + gpu::kWarp;
    if (std::any_of(first, last, [](const Thread& thread) { return thread.waits != Waits::for_warp; })) return;
    const std::size_t bytes = first->given_bytes;
    for (auto thread = first; thread != last; ++thread) {
      SF_CHECK(thread->lane_mask == first->lane_mask && thread->given_bytes == bytes, InternalError,
               "the lanes of a warp exchange what they have in different ways");
    }
    for (auto thread = first; thread != last; ++thread) {
      if (first->lane_mask > 0) {
        std::memcpy(thread->taken, first[(thread - first) ^ thread->lane_mask].given, bytes);
        continue;
      }
      auto* all = static_cast<std::byte*>(thread->taken);
      for (auto lane = first; lane != last; ++lane, all += bytes) std::memcpy(all, lane->given, bytes);
    }
    for (auto thread = first; thread != last; ++thread) thread->waits = Waits::no;
  }

  const gpu::LaunchShape& shape_;
  const std::function<void(gpu::HostThread&)>& body_;
  SharedMemory memory_;
  std::mt19937_64 random_;
  std::vector<Thread> threads_;
};

}  // namespace

void emulate_blocks(const gpu::LaunchShape& shape, const std::function<void(gpu::HostThread&)>& body,
                    std::uint64_t seed) {
  SF_CHECK(shape.threads >= gpu::kWarp && shape.threads <= gpu::kMostThreads && shape.threads % gpu::kWarp == 0,
           InternalError, "launch of ", shape.threads, " threads a block; wanted a multiple of 32 up to ",
           gpu::kMostThreads);
  SF_CHECK(shape.shared_bytes <= 48 * 1024, InternalError, "launch with ", shape.shared_bytes,
           " bytes of shared memory");
  BlockEmulator emulator(shape, body, seed);
  std::vector<std::int64_t> order(static_cast<std::size_t>(shape.blocks));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
  for (std::int64_t block : order) emulator.execute(block);
}

}  // namespace sectionflow::testing_support

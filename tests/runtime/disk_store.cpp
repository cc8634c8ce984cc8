#include "runtime/disk_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "tests/runtime/disk_case.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

class DiskTransfers : public EveryWay {};
INSTANTIATE_TEST_SUITE_P(EveryWay, DiskTransfers, every_way(), way_name);

TEST_P(DiskTransfers, BlocksComeBackWhateverTheirPlacesAndSizes) {
  DiskStore store(options(24_MiB, 7));
  EXPECT_FALSE(store.uses_uring() && !GetParam().uring);
  EXPECT_FALSE(store.uses_direct_access() && !GetParam().direct);
  struct Place {
    std::size_t offset, num_bytes;
  };
  // Within a page, up to one, over some, unaligned on both sides, none, longer than all pieces in flight up to the end,
  // and whole pages with a rest.
  const std::vector<Place> places = {
      {0, 7},     {256, 4096 - 256},     {4096, 3 * 4096},      {16384 + 512, 1_MiB + 33},
      {2_MiB, 0}, {3_MiB + 256, 18_MiB}, {22_MiB, 2_MiB - 1000}};
  for (std::uint64_t cycle = 0; cycle < 2; ++cycle) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      const BlockLabel label{i, static_cast<int>(i), cycle};
      store.write(static_cast<int>(i), places[i].offset, random_bytes(places[i].num_bytes, 10 * cycle + i), label);
    }
    for (std::size_t i = places.size(); i-- > 0;) {
      // At the beginning of a page, as buffers of the host pool, and elsewhere.
      for (const std::size_t before : {kPageBytes, std::size_t{1}}) {
        Bytes got(before + places[i].num_bytes + 1, std::byte{77});
        const BlockLabel label{i, static_cast<int>(i), cycle};
        store.read(static_cast<int>(i), places[i].offset, std::span(got).subspan(before, places[i].num_bytes), label);
        const Bytes wanted = random_bytes(places[i].num_bytes, 10 * cycle + i);
        EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), got.begin() + static_cast<std::ptrdiff_t>(before))) << i;
        EXPECT_EQ(got[before - 1], std::byte{77});
        EXPECT_EQ(got.back(), std::byte{77});
      }
    }
  }
  EXPECT_EQ(store.high_water(), 24_MiB - 1000);
}

TEST_P(DiskTransfers, WholePagesGoPastThePageCacheFromWhereTheyLie) {
  DiskStoreOptions o = options(4_MiB);
  o.calls.try_uring = false;
  const Bytes bytes = random_bytes(1_MiB + 5000, 1);
  Bytes got(bytes.size());
  std::size_t direct = 0, cached = 0;
  const auto note = [&](int descriptor, const void* at, std::size_t num_bytes, const Bytes& whole) {
    const auto* begin = static_cast<const std::byte*>(at);
    if (begin < whole.data() || begin + num_bytes > whole.data() + whole.size()) return;
    ((fcntl(descriptor, F_GETFL) & O_DIRECT) != 0 ? direct : cached) += num_bytes;
  };
  o.calls.pwrite = [&](int descriptor, const void* from, std::size_t num_bytes, off_t offset) {
    note(descriptor, from, num_bytes, bytes);
    return ::pwrite(descriptor, from, num_bytes, offset);
  };
  o.calls.pread = [&](int descriptor, void* to, std::size_t num_bytes, off_t offset) {
    note(descriptor, to, num_bytes, got);
    return ::pread(descriptor, to, num_bytes, offset);
  };
  DiskStore store(o);
  const auto carry = [&](std::size_t offset, std::size_t skipped, std::size_t num_bytes) {
    direct = cached = 0;
    store.write(0, offset, std::span(bytes).subspan(skipped, num_bytes), {});
    store.read(0, offset, std::span(got).subspan(skipped, num_bytes), {});
    EXPECT_TRUE(std::equal(got.begin() + static_cast<std::ptrdiff_t>(skipped), got.end(),
                           bytes.begin() + static_cast<std::ptrdiff_t>(skipped)));
    EXPECT_EQ(direct + cached, 2 * num_bytes) << "all of it from and to the caller's bytes";
  };
  carry(2 * kPageBytes, kPageBytes, bytes.size() - kPageBytes);
  EXPECT_EQ(cached, store.uses_direct_access() ? 2 * (bytes.size() % kPageBytes) : 2 * (bytes.size() - kPageBytes));
  carry(kPageBytes, 256, bytes.size() - 256);
  EXPECT_EQ(direct, 0U) << "the address is none of a page";
  carry(256, 0, bytes.size());
  EXPECT_EQ(direct, 0U) << "the offset is none of a page";
}

TEST_P(DiskTransfers, TwoLanesWorkAtTheSameTime) {
  constexpr std::size_t kBlock = 700'000;
  constexpr int kBlocks = 6, kTurns = 60;
  DiskStore store(options(kBlocks * round_up(kBlock, kPageBytes), kBlocks));
  // Block i is written in turn i, i + kBlocks, ..., and read before it is written anew.
  std::atomic<int> num_written = 0, num_read = 0;
  const auto offset = [&](int turn) { return static_cast<std::size_t>(turn % kBlocks) * round_up(kBlock, kPageBytes); };
  std::thread out([&] {
    for (int turn = 0; turn < kTurns; ++turn) {
      while (num_read + kBlocks <= turn) std::this_thread::yield();
      const Bytes bytes(kBlock, static_cast<std::byte>(turn));
      store.write(turn % kBlocks, offset(turn), bytes, {.tensor = 1, .cycle = static_cast<std::uint64_t>(turn)});
      ++num_written;
    }
  });
  Bytes got(kBlock);
  for (int turn = 0; turn < kTurns; ++turn) {
    while (num_written <= turn) std::this_thread::yield();
    store.read(turn % kBlocks, offset(turn), got, {.tensor = 1, .cycle = static_cast<std::uint64_t>(turn)});
    EXPECT_EQ(std::count(got.begin(), got.end(), static_cast<std::byte>(turn)), std::ptrdiff_t{kBlock});
    ++num_read;
  }
  out.join();
}

TEST_P(DiskTransfers, InterruptedAndShortCallsAreTakenUpAgain) {
  DiskStoreOptions o = options(8_MiB);
  std::mt19937 random(3);
  int num_short = 0;
  const auto shorten = [&](std::size_t num_bytes) {
    ++num_short;
    return num_bytes < 2 ? num_bytes : 1 + random() % (num_bytes - 1);
  };
  bool interrupts = false;  // not while it is being made
  const auto interrupted = [&] {
    const bool yes = interrupts && random() % 3 == 0;
    if (yes) errno = EINTR;
    return yes;
  };
  o.calls.pwrite = [&](int descriptor, const void* bytes, std::size_t num_bytes, off_t offset) -> ssize_t {
    if (interrupted()) return -1;
    return ::pwrite(descriptor, bytes, interrupts && random() % 2 == 0 ? shorten(num_bytes) : num_bytes, offset);
  };
  o.calls.pread = [&](int descriptor, void* bytes, std::size_t num_bytes, off_t offset) -> ssize_t {
    if (interrupted()) return -1;
    return ::pread(descriptor, bytes, interrupts && random() % 2 == 0 ? shorten(num_bytes) : num_bytes, offset);
  };
  o.calls.ring_result = [&](int result) {
    if (interrupted()) return -EINTR;
    if (random() % 5 == 0) return -EAGAIN;
    return result > 1 && random() % 2 == 0 ? static_cast<int>(shorten(static_cast<std::size_t>(result))) : result;
  };
  DiskStore store(o);
  interrupts = true;
  const Bytes bytes = random_bytes(7_MiB + 123, 1);
  Bytes got(bytes.size());
  for (std::uint64_t cycle = 0; cycle < 5; ++cycle) {
    store.write(0, 4096, bytes, {.cycle = cycle});
    std::fill(got.begin(), got.end(), std::byte{0});
    store.read(0, 4096, got, {.cycle = cycle});
    EXPECT_EQ(got, bytes);
  }
  EXPECT_GT(num_short, 20);
}

TEST_P(DiskTransfers, EveryCallThatFailsIsATypedErrorAndTheStoreGoesOn) {
  // Numbers of calls of a write and of a read differ among the ways: fail the first, the second, ... until none does.
  const Bytes bytes = random_bytes(3_MiB + 77, 1);
  for (const int error : {ENOSPC, EIO}) {
    for (const bool in_write : {true, false}) {
      int num_failed = 0;
      for (int which = 0;; ++which) {
        DiskStoreOptions o = options(4_MiB);
        int countdown = -1;
        const auto fails = [&] {
          errno = error;
          return countdown >= 0 && countdown-- == 0;
        };
        o.calls.pwrite = [&](int d, const void* data, std::size_t n, off_t at) {
          return fails() ? ssize_t{-1} : ::pwrite(d, data, n, at);
        };
        o.calls.pread = [&](int d, void* data, std::size_t n, off_t at) {
          return fails() ? ssize_t{-1} : ::pread(d, data, n, at);
        };
        o.calls.ring_result = [&](int result) { return fails() ? -error : result; };
        DiskStore store(o);
        Bytes got(bytes.size());
        if (in_write) countdown = which;
        std::string text;
        try {
          store.write(2, 8192, bytes, {.tensor = 3, .section = 4, .cycle = 5});
          if (in_write) {
            ASSERT_GE(std::exchange(countdown, -1), 0) << "an error was swallowed";
            break;
          }
          countdown = which;
          store.read(2, 8192, got, {.tensor = 3, .section = 4, .cycle = 5});
        } catch (const DeviceError& failure) {
          EXPECT_EQ(failure.code(), ErrorCode::disk_io);
          text = failure.what();
        }
        if (text.empty()) {
          ASSERT_GE(countdown, 0) << "an error was swallowed";
          break;
        }
        countdown = -1;
        ++num_failed;
        EXPECT_EQ(text.find("SF-E502 DeviceError: disk: "), 0u) << text;
        for (const std::string& part :
             {std::string(in_write ? "writing" : "reading"), std::string("'layer_3' of section 4 in cycle 5"),
              std::string("at byte 8192 of"), folder_.path().string(), std::string(std::strerror(error))}) {
          EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
        }
        if (in_write) {
          EXPECT_THROW(store.read(2, 8192, got, {.tensor = 3, .section = 4, .cycle = 5}), DataError);
        }
        store.write(2, 8192, bytes, {.tensor = 3, .section = 4, .cycle = 6});
        store.read(2, 8192, got, {.tensor = 3, .section = 4, .cycle = 6});
        EXPECT_EQ(got, bytes);
      }
      EXPECT_GE(num_failed, 7) << "pieces of half a MiB";
    }
  }
}

TEST(DiskStore, MeasuresItsPeak) {
  const TemporaryFolder folder;
  DiskStore store(options_in(folder, 1_MiB));
  EXPECT_EQ(store.high_water(), 0u);
  store.write(0, 512, Bytes(1000), {});
  store.write(1, 0, Bytes(100), {});
  EXPECT_EQ(store.high_water(), 1512u);
  store.begin_measurement();
  EXPECT_EQ(store.high_water(), 0u);
  Bytes got(1000);
  store.read(0, 512, got, {});
  EXPECT_EQ(store.high_water(), 0u);
}

TEST(DiskStore, BlocksAndBytesOutsideAreRefused) {
  const TemporaryFolder folder;
  DiskStore store(options_in(folder, 4096, 2));
  Bytes bytes(4096);
  EXPECT_THROW(store.write(-1, 0, bytes, {}), InternalError);
  EXPECT_THROW(store.write(2, 0, bytes, {}), InternalError);
  EXPECT_THROW(store.write(0, 1, bytes, {}), InternalError);
  EXPECT_THROW(store.write(0, ~std::size_t{0}, bytes, {}), InternalError);
  EXPECT_THROW(store.read(0, 0, bytes, {}), InternalError) << "never written";
  store.write(0, 0, bytes, {});
  EXPECT_THROW(store.read(0, 0, std::span(bytes).first(100), {}), InternalError);
  EXPECT_THROW(store.read(0, 256, std::span(bytes).first(100), {}), InternalError);
  EXPECT_NO_THROW(store.read(0, 0, bytes, {}));
}

TEST(DiskStore, MayBeEmpty) {
  const TemporaryFolder folder;
  DiskStore store(options_in(folder, 0, 1));
  store.write(0, 0, {}, {});
  store.read(0, 0, {}, {});
  EXPECT_EQ(store.num_bytes(), 0u);
}

}  // namespace
}  // namespace sectionflow

#include "runtime/disk_store.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(std::size_t num_bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(num_bytes);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

std::string name_of(const BlockLabel& label) {
  return text_of("layer_", label.tensor);
}

DiskStoreOptions options_in(const TemporaryFolder& folder, std::size_t num_bytes, std::size_t num_blocks = 8) {
  return {.folder = folder.path().string(), .num_bytes = num_bytes, .num_blocks = num_blocks, .name_of = name_of};
}

/// The four ways of carrying bytes; those that the machine lacks are the plain one.
struct Way {
  const char* name;
  bool uring, direct;
};
class EveryWay : public testing::TestWithParam<Way> {
 protected:
  DiskStoreOptions options(std::size_t num_bytes, std::size_t num_blocks = 8) const {
    DiskStoreOptions options = options_in(folder_, num_bytes, num_blocks);
    options.calls.try_uring = GetParam().uring;
    options.calls.try_direct = GetParam().direct;
    return options;
  }
  TemporaryFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(DiskStore, EveryWay,
                         testing::Values(Way{"Plain", false, false}, Way{"Direct", false, true},
                                         Way{"Uring", true, false}, Way{"UringAndDirect", true, true}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(EveryWay, BlocksComeBackWhateverTheirPlacesAndSizes) {
  DiskStore store(options(24_MiB, 6));
  EXPECT_FALSE(store.uses_uring() && !GetParam().uring);
  EXPECT_FALSE(store.uses_direct_access() && !GetParam().direct);
  struct Place {
    std::size_t offset, num_bytes;
  };
  // Within a page, up to one, over some, unaligned on both sides, longer than all pieces in flight, up to the end.
  const std::vector<Place> places = {
      {0, 7}, {256, 4096 - 256}, {4096, 3 * 4096}, {16384 + 512, 1_MiB + 33}, {2_MiB, 0}, {3_MiB + 256, 21_MiB - 256}};
  for (std::uint64_t cycle = 0; cycle < 2; ++cycle) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      const BlockLabel label{i, static_cast<int>(i), cycle};
      store.write(static_cast<int>(i), places[i].offset, random_bytes(places[i].num_bytes, 10 * cycle + i), label);
    }
    for (std::size_t i = places.size(); i-- > 0;) {
      // Not at the beginning of a page, as buffers of the host pool.
      Bytes got(places[i].num_bytes + 3, std::byte{77});
      const BlockLabel label{i, static_cast<int>(i), cycle};
      store.read(static_cast<int>(i), places[i].offset, std::span(got).subspan(1, places[i].num_bytes), label);
      const Bytes wanted = random_bytes(places[i].num_bytes, 10 * cycle + i);
      EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), got.begin() + 1)) << i;
      EXPECT_EQ(got.front(), std::byte{77});
      EXPECT_EQ(got.back(), std::byte{77});
    }
  }
  EXPECT_EQ(store.high_water(), 24_MiB);
}

TEST_P(EveryWay, TwoLanesWorkAtTheSameTime) {
  constexpr std::size_t kBlock = 700'000;
  constexpr int kBlocks = 6, kTurns = 60;
  DiskStore store(options(kBlocks * round_up(kBlock), kBlocks));
  // Block i is written in turn i, i + kBlocks, ..., and read before it is written anew.
  std::atomic<int> num_written = 0, num_read = 0;
  const auto offset = [&](int turn) { return static_cast<std::size_t>(turn % kBlocks) * round_up(kBlock); };
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

TEST_P(EveryWay, InterruptedAndShortCallsAreTakenUpAgain) {
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
    store.write(0, 256, bytes, {.cycle = cycle});
    std::fill(got.begin(), got.end(), std::byte{0});
    store.read(0, 256, got, {.cycle = cycle});
    EXPECT_EQ(got, bytes);
  }
  EXPECT_GT(num_short, 20);
}

TEST_P(EveryWay, EveryCallThatFailsIsATypedErrorAndTheStoreGoesOn) {
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
          store.write(2, 512, bytes, {.tensor = 3, .section = 4, .cycle = 5});
          if (in_write) {
            ASSERT_GE(std::exchange(countdown, -1), 0) << "an error was swallowed";
            break;
          }
          countdown = which;
          store.read(2, 512, got, {.tensor = 3, .section = 4, .cycle = 5});
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
              std::string("at byte 512 of"), folder_.path().string(), std::string(std::strerror(error))}) {
          EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
        }
        if (in_write) {
          EXPECT_THROW(store.read(2, 512, got, {.tensor = 3, .section = 4, .cycle = 5}), InternalError);
        }
        store.write(2, 512, bytes, {.tensor = 3, .section = 4, .cycle = 6});
        store.read(2, 512, got, {.tensor = 3, .section = 4, .cycle = 6});
        EXPECT_EQ(got, bytes);
      }
      EXPECT_GE(num_failed, 7) << "pieces of half a MiB";
    }
  }
}

// ---- Damage.

/// A store of blocks side by side, which trials damage behind its back.
struct Damaged {
  static constexpr int kBlocks = 8;
  static constexpr std::size_t kBlock = 5120;  // not whole pages
  explicit Damaged(DiskStoreOptions options) : store(std::move(options)) {}

  static std::size_t offset(int block) { return static_cast<std::size_t>(block) * kBlock; }
  void write_all(std::uint64_t cycle) {
    for (int i = 0; i < kBlocks; ++i) {
      store.write(i, offset(i), random_bytes(kBlock, 1000 * cycle + static_cast<std::uint64_t>(i)), label(i, cycle));
    }
  }
  static BlockLabel label(int block, std::uint64_t cycle) {
    return {static_cast<std::uint64_t>(block), block / 2, cycle};
  }
  Bytes raw(int block) const {
    Bytes bytes(kBlock);
    EXPECT_EQ(pread(descriptor(), bytes.data(), kBlock, static_cast<off_t>(offset(block))), ssize_t{kBlock});
    return bytes;
  }
  void put_raw(int block, const Bytes& bytes) const {
    EXPECT_EQ(pwrite(descriptor(), bytes.data(), kBlock, static_cast<off_t>(offset(block))), ssize_t{kBlock});
  }
  int descriptor() const { return store.file_descriptor_for_tests(); }

  /// Whether reading the block is refused as damage, in words that lead to it.
  bool is_refused(int block, std::uint64_t cycle) {
    Bytes got(kBlock);
    try {
      store.read(block, offset(block), got, label(block, cycle));
    } catch (const DataError& error) {
      const std::string text = error.what();
      EXPECT_EQ(text.find("SF-E401 DataError: disk: "), 0u) << text;
      for (const std::string& part : {text_of("tensor 'layer_", block, "' of section ", block / 2),
                                      text_of("at byte ", offset(block), " of the swap file")}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
      }
      return true;
    }
    EXPECT_EQ(got, random_bytes(kBlock, 1000 * cycle + static_cast<std::uint64_t>(block)));
    return false;
  }

  DiskStore store;
};

TEST_P(EveryWay, DamageIsFoundInAThousandTrials) {
  Damaged d(options(Damaged::kBlocks * Damaged::kBlock, Damaged::kBlocks));
  std::mt19937 random(11);
  int num_trials = 0;
  d.write_all(0);
  std::vector<Bytes> old;
  for (std::uint64_t cycle = 1; num_trials < 1000; ++cycle) {
    old.clear();
    for (int i = 0; i < Damaged::kBlocks; ++i) old.push_back(d.raw(i));
    d.write_all(cycle);
    for (int i = 0; i < Damaged::kBlocks; ++i) ASSERT_FALSE(d.is_refused(i, cycle));
    for (int kind = 0; kind < 5; ++kind, ++num_trials) {
      const int a = static_cast<int>(random() % Damaged::kBlocks);
      const int b = (a + 1 + static_cast<int>(random() % (Damaged::kBlocks - 1))) % Damaged::kBlocks;
      const Bytes bytes_a = d.raw(a), bytes_b = d.raw(b);
      if (kind == 0) {  // one bit
        Bytes flipped = bytes_a;
        flipped[random() % Damaged::kBlock] ^= static_cast<std::byte>(1U << random() % 8);
        d.put_raw(a, flipped);
        ASSERT_TRUE(d.is_refused(a, cycle));
        ASSERT_FALSE(d.is_refused(b, cycle));
      } else if (kind == 1) {  // two blocks change places
        d.put_raw(a, bytes_b);
        d.put_raw(b, bytes_a);
        ASSERT_TRUE(d.is_refused(a, cycle));
        ASSERT_TRUE(d.is_refused(b, cycle));
      } else if (kind == 2) {  // a write of this cycle never came to the disk
        d.put_raw(a, old[static_cast<std::size_t>(a)]);
        ASSERT_TRUE(d.is_refused(a, cycle));
      } else if (kind == 3) {  // the end of the file is gone
        ASSERT_EQ(ftruncate(d.descriptor(), static_cast<off_t>(Damaged::offset(a) + random() % Damaged::kBlock)), 0);
        for (int i = 0; i < Damaged::kBlocks; ++i) ASSERT_EQ(d.is_refused(i, cycle), i >= a);
      } else {  // the caller means another cycle, or another tensor
        Bytes got(Damaged::kBlock);
        ASSERT_TRUE(d.is_refused(a, cycle + 1));
        ASSERT_TRUE(d.is_refused(a, cycle - 1));
        ASSERT_THROW(d.store.read(a, Damaged::offset(a), got, Damaged::label(b, cycle)), DataError);
      }
      d.write_all(cycle);
    }
  }
  EXPECT_GE(num_trials, 1000);
}

TEST(DiskStore, EqualBytesUnderAnotherLabelAreRefused) {
  const TemporaryFolder folder;
  DiskStore store(options_in(folder, 1_MiB));
  const Bytes bytes(1000);
  Bytes got(1000);
  store.write(0, 0, bytes, {.tensor = 1, .section = 0, .cycle = 7});
  store.read(0, 0, got, {.tensor = 1, .section = 0, .cycle = 7});
  for (const BlockLabel& other : {BlockLabel{1, 0, 8}, BlockLabel{1, 1, 7}, BlockLabel{2, 0, 7}}) {
    EXPECT_THROW(store.read(0, 0, got, other), DataError);
  }
  const std::string text = error_text<DataError>([&] { store.read(0, 0, got, {1, 0, 8}); });
  EXPECT_NE(text.find("the bytes are those of tensor 'layer_1' of section 0 in cycle 7"), std::string::npos) << text;
}

// ---- The file.

TEST(DiskStore, FileHasNoNameAndIsItsOwnersAlone) {
  for (const bool has_tmpfile : {true, false}) {
    const TemporaryFolder folder;
    const mode_t mask = umask(0);
    DiskStoreOptions o = options_in(folder, 1_MiB);
    if (!has_tmpfile) {
      o.calls.open = [](const char* path, int flags, mode_t mode) {
        errno = EOPNOTSUPP;
        return (flags & O_TMPFILE) == O_TMPFILE ? -1 : ::open(path, flags, mode);
      };
    }
    DiskStore store(o);
    umask(mask);
    EXPECT_EQ(folder.num_files(), 0u);
    struct stat status {};
    ASSERT_EQ(fstat(store.file_descriptor_for_tests(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777U, 0600U);
    EXPECT_EQ(status.st_nlink, 0U);
    EXPECT_EQ(status.st_size, off_t{1_MiB});
    EXPECT_GE(status.st_blocks * 512, off_t{1_MiB}) << "its space is taken";
    const std::string link =
        std::filesystem::read_symlink(text_of("/proc/self/fd/", store.file_descriptor_for_tests())).string();
    EXPECT_NE(link.find(" (deleted)"), std::string::npos) << link;
    EXPECT_EQ(fcntl(store.file_descriptor_for_tests(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    const Bytes bytes = random_bytes(100'000, 1);
    Bytes got(100'000);
    store.write(0, 0, bytes, {});
    store.read(0, 0, got, {});
    EXPECT_EQ(got, bytes);
  }
}

std::size_t num_descriptors() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

TEST(DiskStore, LeavesNoDescriptorsBehind) {
  const TemporaryFolder folder;
  const std::size_t before = num_descriptors();
  for (int i = 0; i < 3; ++i) DiskStore store(options_in(folder, 1_MiB));
  EXPECT_THROW(DiskStore(options_in(folder, std::size_t{1} << 60)), BudgetError);
  EXPECT_EQ(num_descriptors(), before);
}

TEST(DiskStore, FoldersThatCannotHoldItAreNamedAsGiven) {
  const TemporaryFolder folder;
  const auto text_for = [](const std::string& path) {
    return whole_error_text<ArgumentError>([&] { DiskStore store({.folder = path, .num_bytes = 1_MiB}); });
  };
  const std::string absent = (folder.path() / "absent").string(), file = folder.file("file", "x").string();
  for (const std::string& path : {absent, file}) {
    const std::string text = text_for(path);
    EXPECT_EQ(text.find("SF-E501 ArgumentError: disk: the swap file cannot be made in '" + path + "': "), 0u) << text;
  }
  EXPECT_NE(text_for("no/such/folder").find("'no/such/folder'"), std::string::npos);
  DiskStoreOptions o = options_in(folder, 1_MiB);
  o.calls.open = [](const char*, int, mode_t) {
    errno = EACCES;
    return -1;
  };
  EXPECT_NE(error_text<ArgumentError>([&] { DiskStore store(o); }).find("Permission denied"), std::string::npos);
}

TEST(DiskStore, TheSystemsTemporaryFolderIsTheDefault) {
  DiskStore store({.num_bytes = 4096, .num_blocks = 1});
  EXPECT_EQ(store.folder(), std::filesystem::temp_directory_path().string());
}

TEST(DiskStore, TooLittleSpaceIsABudgetErrorWithTheBytes) {
  const TemporaryFolder folder;
  constexpr std::size_t kNeeded = std::size_t{1} << 60;
  try {
    DiskStore store(options_in(folder, kNeeded));
    FAIL();
  } catch (const BudgetError& error) {
    EXPECT_EQ(error.minimum_bytes, kNeeded);
    EXPECT_LT(error.budget_bytes, kNeeded);
    const std::string text = error.what();
    EXPECT_EQ(text.find("SF-E101 BudgetError: disk: the swap file needs 1048576 TiB"), 0u) << text;
    EXPECT_NE(text.find(text_of("'", folder.path().string(), "' has ")), std::string::npos) << text;
    EXPECT_NE(text.find(text_of(error.budget_bytes, " bytes")), std::string::npos) << text;
  }
  EXPECT_EQ(folder.num_files(), 0u);
}

TEST(DiskStore, SpaceThatGoesBeforeItIsTakenIsABudgetErrorToo) {
  const TemporaryFolder folder;
  for (const int error : {ENOSPC, EDQUOT, EFBIG}) {
    DiskStoreOptions o = options_in(folder, 1_MiB);
    o.calls.fallocate = [error](int, int, off_t, off_t) {
      errno = error;
      return -1;
    };
    EXPECT_NE(error_text<BudgetError>([&] { DiskStore store(o); }).find(std::strerror(error)), std::string::npos);
  }
  DiskStoreOptions o = options_in(folder, 1_MiB);
  o.calls.fallocate = [](int, int, off_t, off_t) {
    errno = EIO;
    return -1;
  };
  EXPECT_NE(whole_error_text<DeviceError>([&] { DiskStore store(o); }).find("SF-E502"), std::string::npos);
}

TEST(DiskStore, SpaceIsTakenPageByPageWhereTheFileSystemCannotDoItAtOnce) {
  const TemporaryFolder folder;
  DiskStoreOptions o = options_in(folder, 300'001);
  int num_calls = 0;
  o.calls.fallocate = [&](int, int, off_t, off_t) {
    errno = num_calls++ == 0 ? EINTR : EOPNOTSUPP;
    return -1;
  };
  DiskStore store(o);
  EXPECT_EQ(num_calls, 2);
  struct stat status {};
  ASSERT_EQ(fstat(store.file_descriptor_for_tests(), &status), 0);
  EXPECT_EQ(status.st_size, 300'001);
  EXPECT_GE(status.st_blocks * 512, 300'001);
}

TEST(DiskStore, ALimitOfFileSizesIsToldInsteadOfASignal) {
  const TemporaryFolder folder;
  struct rlimit before {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const struct rlimit small = {.rlim_cur = 1_MiB, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string text = error_text<BudgetError>([&] { DiskStore store(options_in(folder, 2_MiB)); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_NE(text.find("RLIMIT_FSIZE"), std::string::npos) << text;
}

TEST(DiskStore, DirectAccessThatTheFileSystemRefusesIsNotTaken) {
  const TemporaryFolder folder;
  for (const bool at_opening : {true, false}) {
    DiskStoreOptions o = options_in(folder, 1_MiB);
    o.calls.open = [&](const char* path, int flags, mode_t mode) {
      errno = EINVAL;
      return at_opening && (flags & O_DIRECT) != 0 ? -1 : ::open(path, flags, mode);
    };
    o.calls.pwrite = [](int descriptor, const void* bytes, std::size_t num_bytes, off_t offset) {
      errno = EINVAL;
      return (fcntl(descriptor, F_GETFL) & O_DIRECT) != 0 ? -1 : ::pwrite(descriptor, bytes, num_bytes, offset);
    };
    DiskStore store(o);
    EXPECT_FALSE(store.uses_direct_access());
    const Bytes bytes = random_bytes(100'000, 1);
    Bytes got(100'000);
    store.write(0, 4096, bytes, {});
    store.read(0, 4096, got, {});
    EXPECT_EQ(got, bytes);
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

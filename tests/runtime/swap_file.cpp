#include "runtime/swap_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>

#include "base/bytes.h"
#include "base/error.h"
#include "tests/runtime/disk_case.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

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

}  // namespace
}  // namespace sectionflow

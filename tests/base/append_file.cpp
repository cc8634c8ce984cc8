#include "base/append_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(AppendFile, RecordsAreInTheFileWhenTheCallReturns) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "log";
  AppendFile file(path, "log");
  EXPECT_EQ(bytes_of_file(path), "");
  file.append("one,");
  EXPECT_EQ(bytes_of_file(path), "one,");
  file.append("");
  file.append(std::string("\0two", 4));
  EXPECT_EQ(bytes_of_file(path), std::string("one,\0two", 8));
  file.flush();
}

TEST(AppendFile, NeverTouchesAFileThatIsThere) {
  const TemporaryFolder folder;
  const auto path = folder.file("log", "somebody's");
  EXPECT_THAT(error_text<DataError>([&] { AppendFile(path, "log"); }),
              AllOf(HasSubstr("log: '"), HasSubstr("cannot be made"), HasSubstr("choose another name")));
  std::filesystem::create_symlink(folder.path() / "nowhere", folder.path() / "link");
  EXPECT_THROW(AppendFile(folder.path() / "link", "log"), DataError);
  EXPECT_EQ(bytes_of_file(path), "somebody's");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "nowhere"));
}

TEST(AppendFile, PathsThatNoFileCanHaveAreRefused) {
  const TemporaryFolder folder;
  EXPECT_THROW(AppendFile("", "log"), DataError);
  EXPECT_THROW(AppendFile(folder.path(), "log"), DataError);
  EXPECT_THROW(AppendFile(folder.path() / "no" / "log", "log"), DataError);
  EXPECT_THROW(AppendFile(folder.path() / std::string(300, 'a'), "log"), DataError);
  EXPECT_EQ(folder.num_files(), 0U);
}

TEST(AppendFile, GoesOnBehindWhatAnExistingFileHolds) {
  const TemporaryFolder folder;
  const auto path = folder.file("log", "one,");
  const auto open = [](const std::filesystem::path& existing) {
    AppendFile(existing, "log", ErrorCode::data, {}, AppendTo::existing_file).append("two");
  };
  open(path);
  EXPECT_EQ(bytes_of_file(path), "one,two");
  EXPECT_THAT(error_text<DataError>([&] { open(folder.path() / "none"); }), HasSubstr("cannot be opened"));
  EXPECT_THROW(open(folder.path()), DataError);
  ASSERT_EQ(mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(open(folder.path() / "pipe"), DataError);
  EXPECT_EQ(folder.num_files(), 2U);
}

/// Writes so many bytes, then none.
AppendCalls full_after(std::size_t& left, int error_number = ENOSPC) {
  AppendCalls calls;
  calls.write = [&left, error_number](int descriptor, const void* bytes, std::size_t num_bytes) -> ssize_t {
    if (left == 0) {
      errno = error_number;
      return -1;
    }
    const ssize_t written = ::write(descriptor, bytes, std::min(num_bytes, left));
    left -= static_cast<std::size_t>(written);
    return written;
  };
  return calls;
}

TEST(AppendFile, WhatTheDiskRefusesIsCutOffAndALaterRecordFollowsTheLastWholeOne) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "log";
  std::size_t left = 6;
  AppendFile file(path, "log", ErrorCode::event_write, full_after(left));
  file.append("abcd");
  const auto refuse = [&] { file.append("efgh"); };
  EXPECT_THAT(whole_error_text<DataError>(refuse),
              AllOf(HasSubstr("SF-E432"), HasSubstr("a record cannot be written"), HasSubstr("No space left")));
  EXPECT_EQ(bytes_of_file(path), "abcd") << "the two bytes that were there are gone";
  left = 100;
  file.append("ij");
  EXPECT_EQ(bytes_of_file(path), "abcdij");
}

TEST(AppendFile, WhatTheDiskRefusesIsCutOffBehindWhatAnExistingFileHeld) {
  const TemporaryFolder folder;
  const auto path = folder.file("log", "held");
  std::size_t left = 2;
  AppendFile file(path, "log", ErrorCode::data, full_after(left), AppendTo::existing_file);
  EXPECT_THROW(file.append("efgh"), DataError);
  EXPECT_EQ(bytes_of_file(path), "held");
}

TEST(AppendFile, ARecordThatCanNeitherBeWrittenNorTakenBackEndsTheFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "log";
  std::size_t left = 2;
  AppendCalls calls = full_after(left, EIO);
  calls.ftruncate = [](int, off_t) {
    errno = EIO;
    return -1;
  };
  AppendFile file(path, "log", ErrorCode::data, calls);
  EXPECT_THROW(file.append("abcd"), DataError);
  left = 100;
  EXPECT_THAT(error_text<DataError>([&] { file.append("efgh"); }), HasSubstr("begin another file"));
  EXPECT_EQ(bytes_of_file(path), "ab");
}

TEST(AppendFile, SignalsInterruptNothing) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "log";
  int interruptions = 3;
  AppendCalls calls;
  calls.write = [&](int descriptor, const void* bytes, std::size_t) -> ssize_t {
    if (interruptions-- > 0) {
      errno = EINTR;
      return -1;
    }
    return ::write(descriptor, bytes, 1);
  };
  int flushes = 2;
  calls.fsync = [&](int) {
    errno = EINTR;
    return flushes-- > 0 ? -1 : 0;
  };
  AppendFile file(path, "log", ErrorCode::data, calls);
  file.append("abcd");
  file.flush();
  EXPECT_EQ(bytes_of_file(path), "abcd");
}

TEST(AppendFile, TheFirstFlushOfANewFileIsOfItsNameToo) {
  const TemporaryFolder folder;
  std::vector<bool> flushed;  // whether it was a folder
  bool is_refused = false;
  AppendCalls calls;
  calls.fsync = [&](int descriptor) {
    struct stat status {};
    flushed.push_back(fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode));
    if (!flushed.back() || !is_refused) return 0;
    errno = EIO;
    return -1;
  };
  AppendFile file(folder.path() / "log", "log", ErrorCode::data, calls);
  EXPECT_THAT(flushed, testing::IsEmpty());
  is_refused = true;
  EXPECT_THAT(error_text<DataError>([&] { file.flush(); }), HasSubstr("its folder cannot be flushed"));
  is_refused = false;
  for (int call = 0; call < 2; ++call) file.flush();
  EXPECT_THAT(flushed, testing::ElementsAre(false, true, false, true, false)) << "until it has gone well, once";
  AppendFile(folder.path() / "log", "log", ErrorCode::data, calls, AppendTo::existing_file).flush();
  EXPECT_THAT(flushed, testing::ElementsAre(false, true, false, true, false, false));
}

TEST(AppendFile, AFlushThatFailsIsAnErrorAndTheRecordsStay) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "log";
  AppendCalls calls;
  calls.fsync = [](int) {
    errno = EIO;
    return -1;
  };
  AppendFile file(path, "log", ErrorCode::data, calls);
  file.append("abcd");
  EXPECT_THAT(error_text<DataError>([&] { file.flush(); }), HasSubstr("cannot be flushed"));
  EXPECT_EQ(bytes_of_file(path), "abcd");
}

}  // namespace
}  // namespace sectionflow

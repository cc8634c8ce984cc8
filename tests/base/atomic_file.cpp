#include "base/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>

#include "base/error.h"
#include "base/whole_file.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

/// The bits of a file's mode that say who may do what.
unsigned mode_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777U;
}

/// New files of this process lack these bits while it lives.
class Umask {
 public:
  explicit Umask(mode_t bits) : old_(umask(bits)) {}
  ~Umask() { umask(old_); }

 private:
  mode_t old_;
};

TEST(AtomicFile, KeepsTheModeOfTheFileItReplaces) {
  const TemporaryFolder folder;
  const Umask usual(022);
  for (const mode_t mode : {0600U, 0640U, 0664U, 0755U, 0444U}) {
    const fs::path path = folder.file("private", "old");
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    write_whole_file(path, "new", "save");
    EXPECT_EQ(mode_of(path), mode);
    EXPECT_EQ(bytes_of_file(path), "new");
    fs::remove(path);
  }
}

TEST(AtomicFile, GivesNewFilesTheModeThatTheUserSet) {
  const TemporaryFolder folder;
  for (const mode_t bits : {0022U, 0077U, 0000U}) {
    const Umask umask(bits);
    const fs::path path = folder.path() / ("new" + std::to_string(bits));
    write_whole_file(path, "new", "save");
    EXPECT_EQ(mode_of(path), 0666U & ~bits);
  }
}

TEST(AtomicFile, IsNotOpenToMoreThanItWillBeWhileItIsWritten) {
  const TemporaryFolder folder;
  const Umask none(0);
  const fs::path path = folder.file("private", "old");
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  AtomicFile file(path, "save");
  for (const auto& entry : fs::directory_iterator(folder.path())) EXPECT_EQ(mode_of(entry.path()), 0600U);
  EXPECT_EQ(folder.num_files(), 2U);
}

TEST(AtomicFile, WritesToWhereALinkPointsAndLeavesTheLink) {
  const TemporaryFolder folder, other;
  const fs::path path = other.file("target", "old");
  fs::create_symlink(path, folder.path() / "direct");
  fs::create_symlink("direct", folder.path() / "link");
  write_whole_file(folder.path() / "link", "new", "save");
  EXPECT_TRUE(fs::is_symlink(folder.path() / "link"));
  EXPECT_TRUE(fs::is_symlink(folder.path() / "direct"));
  EXPECT_EQ(bytes_of_file(path), "new");
  EXPECT_EQ(folder.num_files(), 2U);
  EXPECT_EQ(other.num_files(), 1U);
}

TEST(AtomicFile, MakesTheFileThatALinkWithoutTargetNames) {
  const TemporaryFolder folder;
  fs::create_symlink("target", folder.path() / "link");
  write_whole_file(folder.path() / "link", "new", "save");
  EXPECT_TRUE(fs::is_symlink(folder.path() / "link"));
  EXPECT_EQ(bytes_of_file(folder.path() / "target"), "new");
}

/// What the error of a save to `path` says.
std::string refusal(const fs::path& path, const FileCalls& calls = {}) {
  return whole_error_text<DataError>([&] {
    AtomicFile file(path, "save", calls);
    file.write("new", 3);
    file.commit();
  });
}

TEST(AtomicFile, WritesToTheLongestNameThatAFolderTakes) {
  const TemporaryFolder folder;
  const fs::path longest = folder.path() / std::string(NAME_MAX, 'n');
  write_whole_file(longest, "new", "save");
  EXPECT_EQ(bytes_of_file(longest), "new");
  EXPECT_EQ(folder.num_files(), 1U);
  EXPECT_THROW(AtomicFile(folder.path() / std::string(NAME_MAX + 1, 'n'), "save"), DataError);
  EXPECT_EQ(folder.num_files(), 1U);
}

TEST(AtomicFile, WritesToTheLongestPathThatTheSystemTakes) {
  const TemporaryFolder folder;
  // The file's own name is short: that of its sibling would not fit behind the same folder.
  fs::path deep = folder.path();
  while (deep.native().size() + 2 < PATH_MAX - 3) {
    const std::size_t left = PATH_MAX - 3 - deep.native().size() - 1;
    deep /= std::string(left > 400 ? 200 : std::min<std::size_t>(left, NAME_MAX), 'p');
    ASSERT_EQ(mkdir(deep.c_str(), 0777), 0) << std::strerror(errno);
  }
  const fs::path longest = deep / "f";
  ASSERT_EQ(longest.native().size(), PATH_MAX - 1U);
  write_whole_file(longest, "new", "save");
  EXPECT_EQ(read_whole_file(longest, 8, "read"), "new");
  write_whole_file(longest, "newer", "save");
  EXPECT_EQ(read_whole_file(longest, 8, "read"), "newer");
}

TEST(AtomicFile, StaysInItsFolderWhereverTheProcessGoes) {
  const TemporaryFolder folder, other;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  AtomicFile file("here", "save");
  fs::current_path(other.path());
  file.write("new", 3);
  file.commit();
  fs::current_path(before);
  EXPECT_EQ(bytes_of_file(folder.path() / "here"), "new");
  EXPECT_EQ(other.num_files(), 0U);
}

TEST(AtomicFile, RefusesAPathThatTheSystemWouldEndEarly) {
  const TemporaryFolder folder;
  const fs::path path = folder.file("before", "old").native() + std::string("\0after", 6);
  EXPECT_THAT(refusal(path), AllOf(HasSubstr("before\\0after': byte "), HasSubstr("is zero"), HasSubstr("hint: ")));
  EXPECT_THAT(whole_error_text<DataError>([&] { (void)read_whole_file(path, 8, "load"); }), HasSubstr("is zero"));
  EXPECT_THAT(whole_error_text<DataError>([&] { write_whole_file_in(path, "file", "new", "save"); }),
              HasSubstr("is zero"));
  EXPECT_EQ(bytes_of_file(folder.path() / "before"), "old");
  EXPECT_EQ(folder.num_files(), 1U);
}

TEST(AtomicFile, RefusesWhatIsNoFile) {
  const TemporaryFolder folder;
  fs::create_directory(folder.path() / "folder");
  ASSERT_EQ(mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  fs::create_symlink("circle", folder.path() / "circle");
  for (const char* name : {"folder", "pipe"}) {
    EXPECT_THAT(refusal(folder.path() / name), AllOf(HasSubstr("SF-E400 DataError: save: '"), HasSubstr(name),
                                                     HasSubstr("is no file"), HasSubstr("hint: ")));
  }
  EXPECT_THAT(refusal("/dev/null"), HasSubstr("'/dev/null': is no file"));
  EXPECT_THAT(refusal(folder.path() / "circle"), AllOf(HasSubstr("circle"), HasSubstr("links"), HasSubstr("hint: ")));
  EXPECT_THAT(refusal(""), HasSubstr("save: '': "));
  EXPECT_THAT(refusal(folder.path() / "absent" / "file"),
              AllOf(HasSubstr("No such file or directory"), HasSubstr("hint:    does the folder exist?")));
  EXPECT_EQ(folder.num_files(), 3U);
}

TEST(AtomicFile, TellsEachStepThatFailsAndLeavesTheOldFileAndNoOther) {
  struct Case {
    std::string step;
    int error_number;
    std::string hint;
    std::function<void(FileCalls&)> plant;
  };
  const auto fails_with = [](int error_number) {
    return [=](auto...) {
      errno = error_number;
      return -1;
    };
  };
  const std::vector<Case> cases = {
      {"its bytes cannot be written", ENOSPC, "make space there",
       [&](FileCalls& calls) { calls.write = fails_with(ENOSPC); }},
      {"its bytes cannot be written", EIO, "look at the disk",
       [&](FileCalls& calls) { calls.write = fails_with(EIO); }},
      {"its bytes cannot be flushed to the disk", EDQUOT, "make space there",
       [&](FileCalls& calls) { calls.fsync = fails_with(EDQUOT); }},
      {"it cannot be closed", ENOSPC, "make space there",
       [&](FileCalls& calls) {
         calls.close = [](int descriptor) {
           ::close(descriptor);
           errno = ENOSPC;
           return -1;
         };
       }},
      {"its mode cannot be set", EPERM, "may this process write there?",
       [&](FileCalls& calls) { calls.fchmod = fails_with(EPERM); }},
      {"the temporary file cannot be renamed to it", EACCES, "may this process write there?",
       [&](FileCalls& calls) { calls.rename = fails_with(EACCES); }}};
  for (const Case& each : cases) {
    SCOPED_TRACE(each.step);
    const TemporaryFolder folder;
    const fs::path path = folder.file("kept", "old");
    FileCalls calls;
    each.plant(calls);
    EXPECT_THAT(refusal(path, calls),
                AllOf(HasSubstr("save: '" + path.string() + "': " + each.step + " ("),
                      HasSubstr(std::strerror(each.error_number)), HasSubstr("hint:    " + each.hint)));
    EXPECT_EQ(bytes_of_file(path), "old");
    EXPECT_EQ(folder.num_files(), 1U);
  }
}

TEST(AtomicFile, GoesOnWhereACallIsInterruptedOrDoesHalfOfTheWork) {
  const TemporaryFolder folder;
  FileCalls calls;
  int turn = 0;
  calls.write = [&](int descriptor, const void* bytes, std::size_t num_bytes) -> ssize_t {
    if (turn++ % 2 == 0) {
      errno = EINTR;
      return -1;
    }
    return ::write(descriptor, bytes, (num_bytes + 1) / 2);
  };
  AtomicFile file(folder.path() / "whole", "save", calls);
  file.write("one two three", 13);
  file.commit();
  EXPECT_EQ(bytes_of_file(folder.path() / "whole"), "one two three");
}

TEST(AtomicFile, AWriteThatWritesNothingIsAnErrorAndNoEndlessLoop) {
  const TemporaryFolder folder;
  FileCalls calls;
  calls.write = [](auto...) { return 0; };
  EXPECT_THAT(refusal(folder.path() / "stuck", calls), HasSubstr("its bytes cannot be written"));
  EXPECT_EQ(folder.num_files(), 0U);
}

TEST(AtomicFile, SaysWhenTheNewFileIsInPlaceButItsFolderIsNotFlushed) {
  const TemporaryFolder folder;
  const fs::path path = folder.file("replaced", "old");
  FileCalls calls;
  int num_calls = 0;
  calls.fsync = [&](int descriptor) {
    if (num_calls++ == 0) return ::fsync(descriptor);
    errno = EIO;
    return -1;
  };
  EXPECT_THAT(refusal(path, calls), HasSubstr("it is in place, but its folder cannot be flushed to the disk"));
  EXPECT_EQ(bytes_of_file(path), "new");
  EXPECT_EQ(folder.num_files(), 1U);
}

TEST(AtomicFile, LeavesTheOldFileWhereItIsNotCommitted) {
  const TemporaryFolder folder;
  const fs::path path = folder.file("kept", "old");
  { AtomicFile(path, "save").write("new", 3); }
  EXPECT_EQ(bytes_of_file(path), "old");
  EXPECT_EQ(folder.num_files(), 1U);
}

TEST(AtomicFile, WhatAKilledWriterHasLeftGoesWithTheNextOneOfTheSameFile) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "saved", longest = folder.path() / std::string(NAME_MAX, 'n');
  for (const fs::path& each : {path, longest}) {
    const pid_t child = fork();
    if (child == 0) {
      AtomicFile file(each, "save");
      file.write("half", 4);
      kill(getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(folder.num_files(), each == path ? 1U : 2U) << "of the one that was killed, and of the file before";
    write_whole_file(each, "whole", "save");
    EXPECT_EQ(bytes_of_file(each), "whole");
  }
  EXPECT_EQ(folder.num_files(), 2U) << "the two files";
}

TEST(AtomicFile, WhatIsBeingWrittenAndWhatIsCalledOtherwiseStays) {
  const TemporaryFolder folder;
  for (const char* name : {"saved.tmp-12", "saved.tmp-12-x", "saved.tmp-", "saved.tmp--1", "other.tmp-12-0",
                           "saved.more.tmp-12-0", "tmp-12-0"}) {
    folder.file(name, "mine");
  }
  fs::create_directory(folder.path() / "saved.tmp-12-1");
  fs::create_symlink(folder.path() / "other.tmp-12-0", folder.path() / "saved.tmp-12-2");
  AtomicFile first(folder.path() / "saved", "save"), second(folder.path() / "saved", "save");
  first.write("one", 3);
  second.write("two", 3);
  EXPECT_EQ(folder.num_files(), 11U);
  second.commit();
  first.commit();
  EXPECT_EQ(bytes_of_file(folder.path() / "saved"), "one");
  EXPECT_EQ(folder.num_files(), 10U);
}

TEST(WholeFile, AppearsInAFolderThatIsMadeOrInThatOfTheProcess) {
  const TemporaryFolder folder;
  write_whole_file_in(folder.path() / "a" / "b", "file", "new", "save");
  EXPECT_EQ(read_whole_file(folder.path() / "a" / "b" / "file", 8, "read"), "new");
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  EXPECT_NO_THROW(write_whole_file_in("", "file", "here", "save"));
  fs::current_path(before);
  EXPECT_EQ(read_whole_file(folder.path() / "file", 8, "read"), "here");
}

TEST(WholeFile, SaysBeforehandWhetherItCouldBeWritten) {
  const TemporaryFolder folder;
  const auto old = folder.file("old", "bytes");
  check_writable(old, "--json");
  check_writable(folder.path() / "later", "--json");
  check_writable_in(folder.path() / "pages", "index.html", "--report");
  EXPECT_EQ(bytes_of_file(old), "bytes");
  EXPECT_EQ(folder.num_files(), 2U) << "the old file, and the folder that is wanted";
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() / "pages"));
  EXPECT_EQ(error_text<DataError>([&] { check_writable(folder.path() / "none" / "file", "--json"); }).find("--json: "),
            0U);
  EXPECT_EQ(error_text<DataError>([&] { check_writable_in(old, "index.html", "--report"); }).find("--report: "), 0U);
}

TEST(WholeFile, RefusesPipesFoldersAndWhatIsTooLarge) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  const auto text = [&](const fs::path& path) {
    return whole_error_text<DataError>([&] { (void)read_whole_file(path, 4, "load"); });
  };
  EXPECT_THAT(text(folder.path() / "pipe"), HasSubstr("pipe': is no file"));
  EXPECT_THAT(text(folder.path()), HasSubstr("is no file"));
  EXPECT_THAT(text("/dev/zero"), HasSubstr("is no file"));
  EXPECT_THAT(text(folder.path() / "absent"), AllOf(HasSubstr("cannot be opened"), HasSubstr("hint: ")));
  EXPECT_THAT(text(folder.file("large", "12345")), HasSubstr("has 5 bytes; wanted at most 4"));
  EXPECT_EQ(read_whole_file(folder.file("fits", "1234"), 4, "load"), "1234");
}

}  // namespace
}  // namespace sectionflow

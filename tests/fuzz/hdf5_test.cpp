// Files of HDF5, which the HDF5 library reads: it does not withstand every forged file (docs/sources.md), so that they
// are read in a process of their own. What is ours is looked at: no other error than a DataError, and no reading
// without an end.

#include "sources/hdf5.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::fuzz {
namespace {

std::string small_file() {
  const TemporaryFolder folder;
  Hdf5Writer writer(folder.path() / "file");
  writer.append("features", HostTensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  writer.append("labels", HostTensor::of<std::int64_t>({2}, {7, 8}));
  writer.finish();
  return bytes_of_file(folder.path() / "file");
}

enum Outcome : int { kRead, kRefused, kOtherError, kLibraryDied, kEndless };

/// Reads the file, in a process of its own.
Outcome outcome_of(const std::filesystem::path& file) {
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no process");
  if (child == 0) {
    const rlimit seconds{.rlim_cur = 2, .rlim_max = 4};
    setrlimit(RLIMIT_CPU, &seconds);
    const rlimit no_core{.rlim_cur = 0, .rlim_max = 0};
    setrlimit(RLIMIT_CORE, &no_core);
    try {
      const auto source = hdf5_source(file, {{"x", "/features"}, {"y", "labels"}}, {.max_row_bytes = 1_MiB});
      for (std::int64_t i = 0; i < source->size() && i < 100; ++i) (void)source->at(i);
      (void)read_hdf5(file, "labels", 1_MiB);
      _exit(kRead);
    } catch (const DataError&) {
      _exit(kRefused);
    } catch (...) {
      _exit(kOtherError);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) return static_cast<Outcome>(WEXITSTATUS(status));
  return WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL ? kEndless : kLibraryDied;
}

TEST(DamagedHdf5, IsReadOrRefusedWhereTheLibraryWithstandsIt) {
  const TemporaryFolder folder;
  const std::string sound = small_file();
  ASSERT_EQ(outcome_of(folder.file("file", sound)), kRead);
  int outcomes[5] = {};
  const auto attempt = [&](const std::string& bytes, const std::string& what) {
    const Outcome outcome = outcome_of(folder.file("file", bytes));
    EXPECT_NE(outcome, kOtherError) << what;
    EXPECT_NE(outcome, kEndless) << what;
    ++outcomes[outcome];
  };
  for (std::size_t length = 0; length < sound.size(); length += sound.size() / 60 + 1)
    attempt(sound.substr(0, length), text_of("cut off at ", length));
  constexpr std::uint32_t kSeed = 4;
  std::mt19937 random(kSeed);
  for (int i = 0; i < 400; ++i) {
    // Most of such a file is nothing; what says how it is to be read stands at its front.
    std::string bytes = sound;
    const std::size_t at = random() % std::min<std::size_t>(bytes.size(), 2048);
    bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8);
    attempt(bytes, text_of("seed ", kSeed, ", flip ", i, " at ", at));
  }
  EXPECT_GT(outcomes[kRefused], 30);
  EXPECT_GT(outcomes[kRead], 30);
  EXPECT_LT(outcomes[kLibraryDied], 10);
}

}  // namespace
}  // namespace sectionflow::fuzz

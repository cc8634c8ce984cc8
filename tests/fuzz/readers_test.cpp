// Every reader reads its seeds, and survives what becomes of them by chance and what longer searches have found
// (tests/fuzz/corpus); tests/fuzz/readers_fuzzer.cpp is such a search.

#include "tests/fuzz/readers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace sectionflow::fuzz {
namespace {

class Readers : public ::testing::TestWithParam<std::string> {
 protected:
  Readers() : reader_(reader_named(GetParam())) {}
  void SetUp() override {
    // What libraries keep for good is there before memory is counted.
    for (const std::string& seed : reader_.seeds) ASSERT_NO_THROW(reader_.read(seed));
  }
  const Reader reader_;
};

/// Changed in one to four places.
std::string changed(std::string bytes, std::mt19937& random) {
  const auto below = [&](std::size_t bound) { return bound == 0 ? 0 : random() % bound; };
  for (std::size_t change = 0; change <= below(4); ++change) {
    const std::size_t place = below(bytes.size()), count = 1 + below(8);
    switch (below(6)) {
      case 0:
        bytes.resize(place);
        break;
      case 1:
        bytes.erase(place, count);
        break;
      case 2:
        bytes.insert(place, count, static_cast<char>(random()));
        break;
      case 3:
        for (std::size_t i = place; i < std::min(bytes.size(), place + count); ++i)
          bytes[i] = static_cast<char>(random());
        break;
      case 4:
        for (std::size_t i = place; i < std::min(bytes.size(), place + count); ++i) bytes[i] = '\xff';
        break;
      default:
        if (!bytes.empty()) bytes[place] = static_cast<char>(bytes[place] ^ 1 << below(8));
    }
  }
  return bytes;
}

TEST_P(Readers, ReadTheirSeedsAndSurviveWhatBecomesOfThem) {
  for (const std::string& seed : reader_.seeds) EXPECT_FALSE(is_refused(reader_, seed));
  constexpr std::uint32_t kSeed = 20;
  std::mt19937 random(kSeed);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string bytes = changed(reader_.seeds[random() % reader_.seeds.size()], random);
    try {
      if (is_refused(reader_, bytes)) ++refused;
    } catch (const std::exception& error) {
      FAIL() << "seed " << kSeed << ", change " << i << ": " << error.what();
    }
  }
  EXPECT_GT(refused, 100);
}

TEST_P(Readers, SurviveWhatSearchesHaveFound) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(SF_FUZZ_CORPUS) / GetParam()))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  ASSERT_FALSE(files.empty());
  for (const std::filesystem::path& file : files) {
    try {
      (void)is_refused(reader_, bytes_of_file(file));
    } catch (const std::exception& error) {
      ADD_FAILURE() << file.filename() << ": " << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Readers, ::testing::ValuesIn(reader_names()), [](const auto& info) { return info.param; });

TEST(LimitsOfReaders, AreFoundToBeBroken) {
  const auto taking = [](std::size_t num_bytes) {
    return [num_bytes](const std::string&) {
      const std::string taken(num_bytes, 'x');
      if (taken.find('y') != std::string::npos) throw std::runtime_error("no x");
    };
  };
  const std::string bytes(100, 'a');
  EXPECT_FALSE(is_refused({"frugal", taking(1000), {}, 10, 1000}, bytes));
  EXPECT_THROW((void)is_refused({"wasteful", taking(3000), {}, 10, 1000}, bytes), std::runtime_error);
  const auto slow = [](const std::string&) {
    for (const auto begin = std::clock(); std::clock() - begin < 11 * (CLOCKS_PER_SEC / 10);) {
    }
  };
  EXPECT_THROW((void)is_refused({"slow", slow, {}, 10, 1000}, bytes), std::runtime_error);
  const auto other = [](const std::string&) { throw std::out_of_range("other"); };
  EXPECT_THROW((void)is_refused({"other", other, {}, 10, 1000}, bytes), std::out_of_range);
}

}  // namespace
}  // namespace sectionflow::fuzz

// Every reader reads its seeds, and survives what becomes of them by chance; tests/fuzz/readers_fuzzer.cpp searches
// longer.

#include "tests/fuzz/readers.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/error.h"

namespace sectionflow::fuzz {
namespace {

class Readers : public ::testing::TestWithParam<std::size_t> {
 protected:
  const Reader& reader() const { return readers()[GetParam()]; }
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
  for (const std::string& seed : reader().seeds) ASSERT_NO_THROW(reader().read(seed)) << reader().name;
  constexpr std::uint32_t kSeed = 20;
  std::mt19937 random(kSeed);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string bytes = changed(reader().seeds[random() % reader().seeds.size()], random);
    try {
      reader().read(bytes);
    } catch (const DataError&) {
      ++refused;
    } catch (const std::exception& error) {
      FAIL() << reader().name << ", seed " << kSeed << ", change " << i << ": " << error.what();
    }
  }
  EXPECT_GT(refused, 100);
}

INSTANTIATE_TEST_SUITE_P(Of, Readers, ::testing::Range<std::size_t>(0, 12),
                         [](const auto& info) { return readers()[info.param].name; });

TEST(ReadersOfFuzzing, AreAllReplayed) {
  EXPECT_EQ(readers().size(), 12U);
}

}  // namespace
}  // namespace sectionflow::fuzz

#include "train/memory_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/error.h"

namespace sectionflow {
namespace {

ProgramReport whole_of(std::size_t persistent, std::size_t transient) {
  ProgramReport report;
  report.persistent_bytes = persistent;
  report.transient_bytes = transient;
  report.planned_peak_bytes = persistent + transient;
  return report;
}

TEST(MemoryShare, SizesAreThemselves) {
  EXPECT_EQ(memory_share("512MiB", whole_of(1, 2)), 512_MiB);
  EXPECT_FALSE(is_share("512MiB"));
}

TEST(MemoryShare, SharesAreOfTheTransientPeakWithVariablesOnTop) {
  const ProgramReport whole = whole_of(1000, 4096);
  EXPECT_TRUE(is_share("50%"));
  EXPECT_EQ(memory_share("50%", whole), 1000u + 2048u);
  EXPECT_EQ(memory_share("100%", whole), whole.planned_peak_bytes);
  EXPECT_EQ(memory_share("12.5%", whole), 1000u + 512u);
  EXPECT_EQ(memory_share("33%", whole), 1000u + 1352u) << "rounded up";
}

TEST(MemoryShare, RefusesAnythingElse) {
  for (const char* text : {"%", "0%", "-5%", "half%", "50%%", "5 0%", "nan%", "", "50 MB"}) {
    EXPECT_THROW(memory_share(text, whole_of(1, 2)), ArgumentError) << text;
  }
}

}  // namespace
}  // namespace sectionflow

// What a report says to people.
#include "schedule/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "base/bytes.h"

namespace sectionflow {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A program that takes 10 MiB of the device, 3 MiB of the host and 1 MiB of the disk.
ProgramReport swapping(std::size_t device, std::size_t host, std::size_t disk) {
  ProgramReport report;
  report.planned_peak_bytes = report.transient_bytes = 10_MiB;
  report.host_peak_bytes = 3_MiB;
  report.disk_peak_bytes = 1_MiB;
  report.bytes_out = report.bytes_in = report.disk_bytes_out = report.disk_bytes_in = 8_MiB;
  report.budget_bytes = device;
  report.host_budget_bytes = host;
  report.disk_budget_bytes = disk;
  report.fits = device >= 10_MiB && host >= 3_MiB && disk >= 1_MiB;
  return report;
}

/// The line of a report's text that begins so.
std::string line(const ProgramReport& report, const std::string& name) {
  std::istringstream lines(report.text());
  for (std::string each; std::getline(lines, each);) {
    if (each.starts_with("  " + name + ":")) return each;
  }
  return {};
}

TEST(ProgramReport, SaysOfEachTierAloneThatItIsTooSmall) {
  const auto is_too_small = HasSubstr("too small");
  const ProgramReport enough = swapping(10_MiB, 3_MiB, 1_MiB);
  EXPECT_THAT(enough.text(), Not(is_too_small));

  const ProgramReport of_device = swapping(10_MiB - 1, 3_MiB, 1_MiB);
  EXPECT_THAT(line(of_device, "budget"), is_too_small);
  EXPECT_THAT(line(of_device, "swapped"), Not(is_too_small));
  EXPECT_THAT(line(of_device, "disk"), Not(is_too_small));

  const ProgramReport of_host = swapping(11_MiB, 2_MiB, 1_MiB);
  EXPECT_EQ(line(of_host, "budget"), "  budget:     11.0 MiB (11534336 bytes)");
  EXPECT_EQ(line(of_host, "swapped"),
            "  swapped:    8.00 MiB out and 8.00 MiB in; host peak 3.00 MiB (3145728 bytes); host_memory of 2.00 MiB "
            "(2097152 bytes) is too small");
  EXPECT_THAT(line(of_host, "disk"), Not(is_too_small));

  const ProgramReport of_disk = swapping(11_MiB, 3_MiB, 4_KiB);
  EXPECT_THAT(line(of_disk, "budget"), Not(is_too_small));
  EXPECT_THAT(line(of_disk, "swapped"), Not(is_too_small));
  EXPECT_THAT(line(of_disk, "disk"), HasSubstr("; disk of 4.00 KiB (4096 bytes) is too small"));
}

TEST(ProgramReport, ShowsATierThatIsTooSmallThoughNothingIsCopiedOut) {
  // Variables whose home tier is the host only come in where nothing changes them.
  ProgramReport report = swapping(11_MiB, 2_MiB, 0);
  report.bytes_out = report.disk_bytes_out = 0;
  EXPECT_THAT(line(report, "swapped"), HasSubstr("host_memory of 2.00 MiB (2097152 bytes) is too small"));
  EXPECT_THAT(line(report, "disk"), HasSubstr("disk of 0 B (0 bytes) is too small"));
}

}  // namespace
}  // namespace sectionflow

#include "tests/support/offload_cases.h"

#include <cstdlib>
#include <numeric>
#include <string_view>

#include "base/bytes.h"
#include "base/error.h"

namespace sectionflow::testing {
namespace {

constexpr double kSlowLink = 200e6;

std::vector<OffloadCase> make_cases() {
  using B = BorderPolicy;
  using I = InteriorPolicy;
  const SessionOptions team{}, threads{.copy_threads = true}, slow{.copy_threads = true, .link_bandwidth = kSlowLink};
  const SessionOptions disk{.disk = 64_MiB}, disk_threads{.disk = 64_MiB, .copy_threads = true, .random_delays = 5};
  std::vector<OffloadCase> cases;
  const auto add = [&](const char* name, B borders, I interior, int prefetch, const SessionOptions& session,
                       int budget = -1) {
    OffloadCase& added = cases.emplace_back();
    added.name = name;
    added.sections.borders = borders;
    added.sections.interior = interior;
    added.sections.prefetch = prefetch;
    added.session = session;
    added.budget = budget;
  };
  add("host, recompute", B::host, I::recompute, 0, team);
  add("host, keep, threads", B::host, I::keep, 2, threads);
  add("host, swap, smallest", B::host, I::swap, 1, team, 0);
  add("host, automatic, slow", B::host, I::automatic, 2, slow, 50);
  add("disk, recompute, threads", B::disk, I::recompute, 2, disk_threads);
  add("disk, keep", B::disk, I::keep, 0, disk, 0);
  add("disk, swap", B::disk, I::swap, 1, disk);
  add("disk, automatic", B::disk, I::automatic, 1, disk, 30);
  add("automatic, recompute, smallest", B::automatic, I::recompute, 0, team, 0);
  add("automatic, recompute, slow threads", B::automatic, I::recompute, 1, slow, 40);
  add("automatic, keep", B::automatic, I::keep, 2, threads, 20);
  add("automatic, swap, slow", B::automatic, I::swap, 0, slow);
  add("automatic, automatic, smallest", B::automatic, I::automatic, 1, disk, 0);
  add("automatic, automatic, half", B::automatic, I::automatic, 2, team, 50);
  add("automatic, automatic, threads", B::automatic, I::automatic, 0, disk_threads, 75);
  add("keep, recompute, smallest", B::keep, I::recompute, 1, team, 0);
  add("keep, keep", B::keep, I::keep, 1, team, 0);
  add("keep, swap, threads", B::keep, I::swap, 2, threads, 60);
  add("keep, automatic", B::keep, I::automatic, 0, team, 40);
  return cases;
}

}  // namespace

const std::vector<OffloadCase>& offload_cases() {
  static const std::vector<OffloadCase> all = make_cases();
  return all;
}

bool OffloadCase::searches() const {
  return sections.interior == InteriorPolicy::automatic || (sections.borders == BorderPolicy::automatic && budget >= 0);
}

std::vector<OffloadCase> offload_cases_for(const std::string& net) {
  const char* named = std::getenv("SECTIONFLOW_TEST_OFFLOADS");
  SF_CHECK(named == nullptr || named == std::string_view("all"), ArgumentError, "SECTIONFLOW_TEST_OFFLOADS is '", named,
           "'; wanted all, or nothing");
  if (named != nullptr) return offload_cases();
  // The same on every machine.
  int turn = std::accumulate(net.begin(), net.end(), 0, [](int sum, char letter) {
    return (sum * 31 + static_cast<unsigned char>(letter)) % 9973;
  });
  std::vector<OffloadCase> cases;
  for (const OffloadCase& each : offload_cases()) {
    if (!each.searches() || turn++ % 6 == 0) cases.push_back(each);
  }
  return cases;
}

TrainOptions with_offloads(TrainOptions options, const OffloadCase& offload_case) {
  options.sections = offload_case.sections;
  options.session = offload_case.session;
  options.budget = offload_case.budget;
  return options;
}

}  // namespace sectionflow::testing

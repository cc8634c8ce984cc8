#include "autodiff/gradient_buckets.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace sectionflow {

std::vector<std::vector<std::size_t>> gradient_buckets(const std::vector<GradientAndVariable>& gradients) {
  struct Bucket {
    std::vector<std::size_t> members{};
    std::size_t bytes = 0;
  };
  const auto made_at = [&](std::size_t index) { return gradients[index].gradient.node().id(); };
  std::vector<std::size_t> order(gradients.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return made_at(a) < made_at(b); });
  std::vector<std::vector<std::size_t>> buckets;
  const auto close = [&](Bucket& bucket) {
    if (!bucket.members.empty()) buckets.push_back(std::exchange(bucket, {}).members);
  };
  std::map<std::pair<GroupId, GroupId>, Bucket> open;  // by the sections of variable and gradient
  for (const std::size_t index : order) {
    const auto& [gradient, variable] = gradients[index];
    const std::size_t bytes = variable.type().bytes();
    if (bytes >= kLargeGradient) {
      buckets.push_back({index});
      continue;
    }
    Bucket& bucket = open[{variable.node().group(), gradient.node().group()}];
    if (bucket.bytes + bytes > kBucketBytes) close(bucket);
    bucket.members.push_back(index);
    bucket.bytes += bytes;
  }
  for (auto& [sections, bucket] : open) close(bucket);
  std::stable_sort(buckets.begin(), buckets.end(),
                   [&](const auto& a, const auto& b) { return made_at(a.back()) < made_at(b.back()); });
  return buckets;
}

}  // namespace sectionflow

#include "planning/frontier_cache.h"

#include <algorithm>
#include <utility>

namespace sectionflow::planning {

struct FrontierCache::Kept {
  Kept(const Problem& of, FrontierOptions options) : problem(of), frontier(problem, std::move(options)) {}

  const Problem problem;
  Frontier frontier;
};

std::shared_ptr<Frontier> FrontierCache::of(const Problem& problem, FrontierOptions options) {
  const auto known = std::ranges::find_if(kept_, [&](const std::shared_ptr<Kept>& each) {
    return each->frontier.is_by(options) && each->problem == problem;
  });
  if (known == kept_.end()) {
    kept_.push_front(std::make_shared<Kept>(problem, std::move(options)));
    if (kept_.size() > kMost) kept_.pop_back();
  } else {
    kept_.splice(kept_.begin(), kept_, known);
    kept_.front()->frontier.set_watch(std::move(options.progress), std::move(options.check));
  }
  return {kept_.front(), &kept_.front()->frontier};
}

}  // namespace sectionflow::planning

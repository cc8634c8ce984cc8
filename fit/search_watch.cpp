#include "fit/search_watch.h"

#include <glog/logging.h>

#include <algorithm>
#include <string>

namespace sectionflow {

void SearchWatch::tell(const char* what, int done, int of) {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun_;
  if (passed.count() < next_told_) return;
  next_told_ = request_.progress ? passed.count() + 1 : 2 * std::max(next_told_, passed.count());
  const std::string counted = std::string(request_.told_first) + what;
  if (request_.progress) return request_.progress(counted.c_str(), done, of, passed.count());
  LOG(INFO) << request_.name << ": " << counted << ": " << done << " of at most " << of << ", "
            << static_cast<int>(passed.count()) << " s";
}

}  // namespace sectionflow

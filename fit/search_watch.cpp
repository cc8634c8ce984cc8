#include "fit/search_watch.h"

#include <glog/logging.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "fit/fit_budget.h"

namespace sectionflow {

void SearchWatch::check() const {
  if (!request_.stop || !request_.stop()) return;
  throw StoppedError(
      error_text_of(request_.name, ": planning was stopped from outside before there was a plan",
                    hint("let it go on, or have it search for less: a lower effort (FitBudgetOptions::effort)")));
}

void SearchWatch::tell(const char* what, int done, int of) {
  check();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun_;
  if (passed.count() < next_told_) return;
  next_told_ = request_.progress ? passed.count() + 1 : 2 * std::max(next_told_, passed.count());
  const std::string counted = request_.told_first + what;
  if (request_.progress) return request_.progress(counted.c_str(), done, of, passed.count());
  LOG(INFO) << request_.name << ": " << counted << ": " << done << " of at most " << of << ", "
            << static_cast<int>(passed.count()) << " s";
}

}  // namespace sectionflow

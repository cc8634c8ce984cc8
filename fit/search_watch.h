#pragma once

#include <chrono>
#include <functional>

#include "fit/fit_list.h"

namespace sectionflow {

/// Ends a search where the request's `stop` says so, and tells how far it is: whoever the request names, once it has
/// taken a second and then once a second at most, or else the log after 1, 2, 4, ... seconds, so that a long search has
/// few lines.
class SearchWatch {
 public:
  /// `request` must outlive this.
  explicit SearchWatch(const FitRequest& request) : request_(request), begun_(std::chrono::steady_clock::now()) {}

  /// Throws: StoppedError where the request is to be stopped.
  void check() const;
  /// The same, to be handed on to whoever searches. This must outlive it.
  std::function<void()> asking() const {
    return [this] { check(); };
  }
  /// `what`: what is counted, of which so many are done of at most so many. Throws: as check().
  void tell(const char* what, int done, int of);

 private:
  const FitRequest& request_;
  const std::chrono::steady_clock::time_point begun_;  // for what is told alone
  double next_told_ = 1;                               // seconds
};

}  // namespace sectionflow

#pragma once

#include <memory>
#include <vector>

#include "base/export.h"
#include "graph/value.h"

namespace SF_API sectionflow {

/// The updates that cycles execute. A cycle that is begun takes them along as they are: such copies are one and the
/// same until the list is changed.
class UpdateList {
 public:
  using Operations = std::vector<Operation>;

  const Operations& list() const { return list_; }
  bool empty() const { return list_.empty(); }
  /// The list to be changed; what was taken along stays as it is.
  Operations& change() {
    taken_.reset();
    return list_;
  }
  /// The list as it is now.
  std::shared_ptr<const Operations> taken_along() const {
    if (taken_ == nullptr) taken_ = std::make_shared<const Operations>(list_);
    return taken_;
  }

 private:
  Operations list_;
  mutable std::shared_ptr<const Operations> taken_;
};

}  // namespace sectionflow

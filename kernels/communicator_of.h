#pragma once

#include "base/error.h"
#include "comm/communicator.h"
#include "kernels/kernel.h"

namespace sectionflow {

/// The communicator, of as many ranks as the kernel's memory is for.
inline Communicator& communicator_of(const KernelArguments& arguments, int ranks) {
  SF_CHECK(arguments.communicator != nullptr, InternalError, "a kernel that communicates has no communicator");
  SF_CHECK(arguments.communicator->size() == ranks, InternalError, "a kernel of ", ranks,
           " ranks has a communicator of ", arguments.communicator->size());
  return *arguments.communicator;
}

}  // namespace sectionflow

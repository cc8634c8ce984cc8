#pragma once

#include <string>

#include "base/error.h"

namespace sectionflow {

/// For calls that need a library which was not there when this one was built: says which package brings it.
/// Throws: DataError (SF-E408).
[[noreturn]] inline void missing_library(const std::string& call, const char* library, const char* package) {
  throw DataError(error_text_of(call, ": this build of sectionflow_sources has been made without ", library,
                                hint("install ", package, " (Debian, Ubuntu), then configure and build anew")),
                  ErrorCode::missing_library);
}

}  // namespace sectionflow

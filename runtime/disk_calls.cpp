#include "runtime/disk_calls.h"

namespace sectionflow {

int open_file(const char* path, int flags, mode_t mode) {
  return ::open(path, flags, mode);
}

}  // namespace sectionflow

#include "base/log.h"

#include <glog/logging.h>

namespace sectionflow {

void start_logging(const char* program_name) {
  if (google::IsGoogleLoggingInitialized()) return;
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(program_name);
}

}  // namespace sectionflow

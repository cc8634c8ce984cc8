#include "swap/lms_environment.h"

#include <cmath>
#include <cstdlib>
#include <string>

#include "base/error.h"

namespace sectionflow {
namespace {

/// The number that a variable holds, or `otherwise` where it is not set.
double number_in(const char* variable, double otherwise, double highest) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const double number = std::strtod(text, &end);
  SF_CHECK_CODE(*end == '\0' && std::isfinite(number) && number > 0 && number <= highest, ArgumentError,
                ErrorCode::lms_parameter, "Lms: the environment has ", variable, "='", text,
                "'; wanted a number above 0, up to ", highest);
  return number;
}

}  // namespace

LmsEnvironment lms_environment() {
  constexpr double kMost = 1e12;
  const double ratio = std::getenv("DDL_OPTIONS") != nullptr ? 0.8 : 0.9;
  const double older = number_in("TF_CUDA_HOST_MEM_LIMIT_IN_MB", 65536, kMost);
  return {.memory_ratio = number_in("TF_LMS_SIMULATOR_MEM_RATIO", ratio, 1),
          .host_limit_bytes = static_cast<std::size_t>(number_in(kHostLimitVariable, older, kMost) * 1048576.0)};
}

}  // namespace sectionflow

#include "train/memory_share.h"

#include <charconv>
#include <cmath>

#include "base/bytes.h"
#include "base/error.h"

namespace sectionflow {

bool is_share(const std::string& text) {
  return text.ends_with('%');
}

std::size_t memory_share(const std::string& text, const ProgramReport& whole) {
  if (!is_share(text)) return parse_bytes(text);
  double percent = 0;
  const char* end = text.data() + text.size() - 1;
  const auto [stop, error] = std::from_chars(text.data(), end, percent);
  SF_CHECK(error == std::errc() && stop == end && percent > 0 && percent <= 1e6, ArgumentError, "'", text,
           "' is no amount of device memory; wanted a size, as in 512MiB, or a share of the whole graph's transient "
           "peak, as in 50%");
  const double transient = std::ceil(static_cast<double>(whole.transient_bytes) * percent / 100);
  return whole.persistent_bytes + static_cast<std::size_t>(transient);
}

}  // namespace sectionflow

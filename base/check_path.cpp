#include "base/check_path.h"

#include "base/error.h"

namespace sectionflow {

void check_path(const std::filesystem::path& path, const std::string& what) {
  const std::string& text = path.native();
  SF_CHECK(!text.empty(), DataError, what, ": '': the name of the file is empty", hint("give it a name"));
  const std::size_t zero = text.find('\0');
  // The byte itself would end the error's text.
  SF_CHECK(zero == std::string::npos, DataError, what, ": '", text.substr(0, zero), "\\0",
           zero == std::string::npos ? "" : text.substr(zero + 1).c_str(), "': byte ", zero,
           " of the name is zero, where the system would end it", hint("choose a name without it"));
}

}  // namespace sectionflow

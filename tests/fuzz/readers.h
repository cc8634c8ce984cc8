#pragma once

#include <functional>
#include <string>
#include <vector>

namespace sectionflow::fuzz {

/// A reader of files that are not trusted.
struct Reader {
  std::string name;
  /// Reads all of it; of errors only DataError leaves it when all is well.
  std::function<void(const std::string& bytes)> read;
  /// Sound files, to begin with.
  std::vector<std::string> seeds;
};

const std::vector<Reader>& readers();

}  // namespace sectionflow::fuzz

#include "tests/house/source_tree.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <utility>

namespace sectionflow::house {

namespace fs = std::filesystem;

Texts lines_of(const std::string& text) {
  Texts lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

Files tree(const std::set<std::string>& extensions) {
  const fs::path root = SF_SOURCE_DIR;
  std::vector<fs::path> paths = {root / "sectionflow.h", root / "sectionflow_ops.h", root / "CMakeLists.txt"};
  for (const auto& entry : fs::directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    // Our folders have a CMakeLists.txt; build folders, hidden ones and documents have none.
    if (!entry.is_directory() || (!fs::exists(entry.path() / "CMakeLists.txt") && name != "cmake")) continue;
    for (const auto& file : fs::recursive_directory_iterator(entry)) {
      if (file.is_regular_file()) paths.push_back(file.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  Files files;
  for (const fs::path& path : paths) {
    SourceFile file{path.lexically_relative(root).generic_string(), ""};
    if (!extensions.contains(file.extension())) continue;
    std::ifstream stream(path);
    file.text.assign(std::istreambuf_iterator<char>(stream), {});
    files.push_back(std::move(file));
  }
  return files;
}
const Files& code() {
  static const Files files = tree({".h", ".cpp", ".inc", ".cu", ".cuh"});
  return files;
}

std::string text_of_file(const std::string& path) {
  std::ifstream stream(fs::path(SF_SOURCE_DIR) / path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::set<std::string> families_of(const std::string& op_list) {
  static const std::regex family(R"(^SF_OP_FAMILY\((\w+)\).*)");
  std::set<std::string> families;
  for (const std::string& line : lines_of(op_list)) {
    std::smatch match;
    if (std::regex_match(line, match, family)) families.insert(match[1]);
  }
  return families;
}

}  // namespace sectionflow::house

#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

// The rules of the house, read from the source tree. Each rule is a function from files to complaints, tried first on a
// planted bad example and then on the tree.

namespace sectionflow::house {

using Texts = std::vector<std::string>;
/// What a rule that finds nothing says.
inline const Texts kNone;

/// A file of the tree: its path from the root, with '/', and its text.
struct SourceFile {
  std::string path;
  std::string text;

  /// The first folder of the path; empty for files at the root.
  std::string folder() const {
    const auto slash = path.find('/');
    return slash == std::string::npos ? "" : path.substr(0, slash);
  }
  std::string extension() const { return std::filesystem::path(path).extension().string(); }
};
using Files = std::vector<SourceFile>;

/// Every file of our folders with one of these extensions, in the order of their paths.
Files tree(const std::set<std::string>& extensions);
/// All code of the tree.
const Files& code();
/// The text of one file of the tree, by its path from the root.
std::string text_of_file(const std::string& path);

Texts lines_of(const std::string& text);

/// The op families of a text like graph/op_list.inc.
std::set<std::string> families_of(const std::string& op_list);

}  // namespace sectionflow::house

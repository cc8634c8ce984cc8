// Every op family has its rooms, and no room stands alone.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "base/error.h"
#include "tests/house/source_tree.h"

namespace sectionflow::house {
namespace {

namespace fs = std::filesystem;

/// Whether at least two families include the header beside this path: then it is what they share.
bool is_shared(const std::string& path, const std::set<std::string>& families, const Files& files) {
  const std::string include = text_of("#include \"", fs::path(path).replace_extension(".h").string(), "\"");
  std::set<std::string> sharing;
  for (const SourceFile& file : files) {
    const std::string family = fs::path(file.path).stem().string();
    if (families.contains(family) && file.text.find(include) != std::string::npos) sharing.insert(family);
  }
  return sharing.size() >= 2;
}

/// Whether these are more tests of a family: tests/ops/<family>_<what>.cpp.
bool are_more_tests(const std::string& path, const std::set<std::string>& families) {
  if (!path.starts_with("tests/ops/")) return false;
  const std::string name = fs::path(path).stem().string();
  return std::any_of(families.begin(), families.end(),
                     [&](const std::string& family) { return name.starts_with(family + "_"); });
}

/// Families without a room, and rooms without a family.
Texts missing_and_stray(const std::string& op_list, const Files& files) {
  const std::set<std::string> families = families_of(op_list);
  std::set<std::string> paths;
  for (const SourceFile& file : files) paths.insert(file.path);
  Texts complaints;
  for (const std::string& family : families) {
    const Texts rooms = {text_of("graph/ops/", family, ".h"),
                         text_of("graph/ops/", family, ".cpp"),
                         text_of("autodiff/gradients/", family, ".cpp"),
                         text_of("kernels/cpu/", family, ".cpp"),
                         text_of("kernels/cuda/", family, ".cu"),
                         text_of("tests/ops/", family, ".cpp")};
    for (const std::string& room : rooms) {
      if (!paths.contains(room)) complaints.push_back(text_of("family ", family, " has no room ", room));
    }
  }
  for (const std::string& path : paths) {
    for (const std::string folder : {"graph/ops/", "graph/nodes/", "autodiff/gradients/", "tests/ops/"}) {
      if (!path.starts_with(folder) || families.contains(fs::path(path).stem().string())) continue;
      if (is_shared(path, families, files) || are_more_tests(path, families)) continue;
      complaints.push_back(path + " belongs to no family");
    }
  }
  return complaints;
}

TEST(OpFamilies, MissingAndStrayRoomsAreFlagged) {
  const std::string list = "// one line a family\nSF_OP_FAMILY(pool)\n";
  const Files all = {{"graph/ops/pool.h", ""},     {"graph/ops/pool.cpp", ""},   {"autodiff/gradients/pool.cpp", ""},
                     {"kernels/cpu/pool.cpp", ""}, {"kernels/cuda/pool.cu", ""}, {"tests/ops/pool.cpp", ""}};
  EXPECT_EQ(missing_and_stray(list, all), kNone);
  for (std::size_t i = 0; i < all.size(); ++i) {
    Files without = all;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_EQ(missing_and_stray(list, without), (Texts{text_of("family pool has no room ", all[i].path)}));
  }
  Files more = all;
  more.push_back({"graph/ops/attic.cpp", ""});
  EXPECT_EQ(missing_and_stray(list, more), (Texts{"graph/ops/attic.cpp belongs to no family"}));
  Files tested = all;
  tested.push_back({"tests/ops/pool_sums.cpp", ""});
  EXPECT_EQ(missing_and_stray(list, tested), kNone);
  tested.push_back({"graph/ops/pool_sums.cpp", ""});
  EXPECT_EQ(missing_and_stray(list, tested), (Texts{"graph/ops/pool_sums.cpp belongs to no family"}));
  more[1].text = "#include \"graph/ops/attic.h\"\n";
  EXPECT_EQ(missing_and_stray(list, more), (Texts{"graph/ops/attic.cpp belongs to no family"}));
}

TEST(OpFamilies, HaveAllTheirRoomsAndNoMore) {
  const auto list =
      std::find_if(code().begin(), code().end(), [](const SourceFile& f) { return f.path == "graph/op_list.inc"; });
  ASSERT_NE(list, code().end());
  EXPECT_GE(families_of(list->text).size(), 10U);
  EXPECT_EQ(missing_and_stray(list->text, code()), kNone);
}

}  // namespace
}  // namespace sectionflow::house

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"

// The rules of the house, read from the source tree. Each rule is a function from files to complaints, tried first on a
// planted bad example and then on the tree.

namespace sectionflow {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

/// A file of the tree: its path from the root, with '/', and its text.
struct SourceFile {
  std::string path;
  std::string text;

  /// The first folder of the path; empty for files at the root.
  std::string folder() const {
    const auto slash = path.find('/');
    return slash == std::string::npos ? "" : path.substr(0, slash);
  }
  std::string extension() const { return fs::path(path).extension().string(); }
};
using Files = std::vector<SourceFile>;

/// Which folders each may include, besides itself.
const std::map<std::string, std::set<std::string>>& may_include() {
  static const std::map<std::string, std::set<std::string>> table = {
      {"base", {}},
      {"graph", {"base"}},
      {"device", {"base"}},
      {"data", {"base"}},
      {"autodiff", {"graph", "base"}},
      {"kernels", {"device", "graph", "base"}},
      {"runtime", {"kernels", "device", "graph", "base"}},
      {"swap", {"runtime", "graph", "base"}},
      {"sections", {"swap", "runtime", "autodiff", "graph", "base"}},
      {"train", {"sections", "swap", "runtime", "autodiff", "graph", "data", "base"}},
  };
  return table;
}

/// Folders that may include everything; so may the umbrella, sectionflow.h.
bool may_include_all(const SourceFile& file) {
  static const std::set<std::string> folders = {"examples", "bench", "tests"};
  return folders.contains(file.folder()) || file.path == "sectionflow.h";
}

Texts lines_of(const std::string& text) {
  Texts lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// The files that a file includes, as they are written between quotes or angle brackets.
Texts includes_of(const SourceFile& file) {
  static const std::regex include(R"re(^\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)").*)re");
  Texts included;
  for (const std::string& line : lines_of(file.text)) {
    std::smatch match;
    if (std::regex_match(line, match, include)) included.push_back(match[1].matched ? match[1] : match[2]);
  }
  return included;
}

std::string quoted_line(const SourceFile& file, std::size_t index, const std::string& line) {
  return file.path + ":" + std::to_string(index + 1) + ": " + line;
}

// ---- The rules.

Texts wrong_folders(const Files& files) {
  Texts complaints;
  for (const SourceFile& file : files) {
    if (may_include_all(file)) continue;
    const auto row = may_include().find(file.folder());
    if (row == may_include().end()) {
      complaints.push_back(file.path + " stands in no folder of the table");
      continue;
    }
    for (const std::string& included : includes_of(file)) {
      const std::string folder = SourceFile{included, ""}.folder();
      const bool is_ours = may_include().contains(folder) || included == "sectionflow.h" || folder == "examples" ||
                           folder == "bench" || folder == "tests" || folder.starts_with('.');
      if (is_ours && folder != file.folder() && !row->second.contains(folder)) {
        complaints.push_back(file.path + " may not include " + included);
      }
    }
  }
  return complaints;
}

/// Headers that begin with one of `prefixes` stand in `folders` alone.
Texts strangers_outside(const Files& files, const Texts& prefixes, const std::set<std::string>& folders) {
  Texts complaints;
  for (const SourceFile& file : files) {
    if (folders.contains(file.folder())) continue;
    for (const std::string& included : includes_of(file)) {
      const bool matches = std::any_of(prefixes.begin(), prefixes.end(),
                                       [&](const std::string& prefix) { return included.starts_with(prefix); });
      if (matches) complaints.push_back(file.path + " may not include " + included);
    }
  }
  return complaints;
}
Texts onednn_outside_its_folders(const Files& files) {
  return strangers_outside(files, {"oneapi/dnnl", "dnnl"}, {"device", "kernels", "tests", "bench"});
}
Texts boost_graph_outside_its_folder(const Files& files) {
  return strangers_outside(files, {"boost/graph/", "boost/property_map/"}, {"graph"});
}

/// Everything that `root` includes of ours, directly or not, and itself.
Files reached_from(const std::string& root, const Files& files) {
  std::map<std::string, const SourceFile*> by_path;
  for (const SourceFile& file : files) by_path[file.path] = &file;
  std::set<std::string> seen = {root};
  Texts todo = {root};
  Files reached;
  while (!todo.empty()) {
    const auto file = by_path.find(todo.back());
    todo.pop_back();
    if (file == by_path.end()) continue;
    reached.push_back(*file->second);
    for (const std::string& included : includes_of(*file->second)) {
      if (seen.insert(included).second) todo.push_back(included);
    }
  }
  return reached;
}

/// Headers for users whose namespace is not exported (base/export.h), or that bring other people's headers along.
Texts wrong_public_headers(const Files& files) {
  static const Texts strangers = {"oneapi/", "dnnl",  "nlohmann/", "boost/",  "glog/",
                                  "zlib.h",  "omp.h", "xxhash.h",  "liburing"};
  static const std::regex unmarked(R"(^namespace sectionflow\b)");
  const Files reached = reached_from("sectionflow.h", files);
  Texts complaints = strangers_outside(reached, strangers, {});
  for (const SourceFile& file : reached) {
    for (const std::string& line : lines_of(file.text)) {
      if (std::regex_search(line, unmarked)) complaints.push_back(file.path + " wants 'namespace SF_API sectionflow'");
    }
  }
  return complaints;
}

Texts lines_that_match(const Files& files, const std::regex& pattern, const Texts& allowed = {}) {
  Texts complaints;
  for (const SourceFile& file : files) {
    const Texts lines = lines_of(file.text);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const bool is_allowed = std::any_of(allowed.begin(), allowed.end(), [&](const std::string& part) {
        return lines[i].find(part) != std::string::npos;
      });
      if (!is_allowed && std::regex_search(lines[i], pattern)) complaints.push_back(quoted_line(file, i, lines[i]));
    }
  }
  return complaints;
}
Texts unfinished_work(const Files& files) {
  // In pieces, so that this file does not complain about itself.
  static const std::regex pattern(
      "\\b(TO"
      "DO|FIX"
      "ME|X"
      "XX|HA"
      "CK)\\b");
  return lines_that_match(files, pattern);
}
Texts absolute_paths(const Files& files) {
  static const std::regex pattern("(^|[\"'<(= ])(/(home|root|work|tmp|Users|mnt|opt|usr|etc|var|srv)/|[A-Z]:\\\\)");
  // Where Debian's package keeps the data set: the same on every machine.
  static const Texts allowed = {"kFashionMnistFolder = "};
  return lines_that_match(files, pattern, allowed);
}

Texts long_files(const Files& files, std::size_t most_lines) {
  Texts complaints;
  for (const SourceFile& file : files) {
    const std::size_t num_lines = lines_of(file.text).size();
    if (file.folder() == "tests" || num_lines <= most_lines) continue;
    complaints.push_back(file.path + " has " + std::to_string(num_lines) + " lines");
  }
  return complaints;
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

/// Families without a room, and rooms without a family.
Texts missing_and_stray_rooms(const std::string& op_list, const Files& files) {
  const std::set<std::string> families = families_of(op_list);
  std::set<std::string> paths;
  for (const SourceFile& file : files) paths.insert(file.path);
  Texts complaints;
  for (const std::string& family : families) {
    const Texts rooms = {text_of("graph/ops/", family, ".h"), text_of("graph/ops/", family, ".cpp"),
                         text_of("autodiff/gradients/", family, ".cpp"), text_of("kernels/cpu/", family, ".cpp"),
                         text_of("tests/ops/", family, ".cpp")};
    for (const std::string& room : rooms) {
      if (!paths.contains(room)) complaints.push_back(text_of("family ", family, " has no room ", room));
    }
  }
  for (const std::string& path : paths) {
    for (const std::string folder : {"graph/ops/", "autodiff/gradients/", "tests/ops/"}) {
      if (!path.starts_with(folder) || families.contains(fs::path(path).stem().string())) continue;
      if (is_shared(path, families, files)) continue;
      complaints.push_back(path + " belongs to no family");
    }
  }
  return complaints;
}

/// Folders whose sf_add_folder(...) DEPENDS on what the table does not give them.
Texts wrong_dependencies(const Files& files) {
  static const std::regex call(R"re(sf_add_folder\((\w+)\s+DEPENDS((?:\s+[a-z_]+)+))re");
  Texts complaints;
  for (const SourceFile& file : files) {
    std::smatch match;
    if (!std::regex_search(file.text, match, call)) continue;
    const auto row = may_include().find(match[1]);
    std::istringstream words(match[2]);
    for (std::string folder; words >> folder;) {
      if (row == may_include().end() || !row->second.contains(folder)) {
        complaints.push_back(file.path + ": " + match[1].str() + " may not depend on " + folder);
      }
    }
  }
  return complaints;
}

/// Codes that base/error_code.h, the sources, docs/errors.md and the tests do not all know.
Texts wrong_error_codes(const std::string& codes, const std::string& index, const Files& files) {
  static const std::regex enumerator(R"(^\s*(\w+) = (\d+),.*)"), heading(R"(^## (SF-E\d{3}) .*)");
  Texts complaints;
  std::set<std::string> known, indexed;
  for (const std::string& line : lines_of(codes)) {
    std::smatch match;
    if (!std::regex_match(line, match, enumerator)) continue;
    const std::string code = code_text(static_cast<ErrorCode>(std::stoi(match[2])));
    if (!known.insert(code).second) complaints.push_back(code + " stands for two errors");
    const std::string use = text_of("ErrorCode::", match[1].str());
    const auto holds = [&](bool in_tests, const std::string& text) {
      return std::any_of(files.begin(), files.end(), [&](const SourceFile& file) {
        return (file.folder() == "tests") == in_tests && file.text.find(text) != std::string::npos;
      });
    };
    if (!holds(false, use)) complaints.push_back(code + " is thrown by nobody");
    if (!holds(true, code)) complaints.push_back(code + " has no test");
  }
  for (const std::string& line : lines_of(index)) {
    std::smatch match;
    if (!std::regex_match(line, match, heading)) continue;
    if (!indexed.insert(match[1]).second) complaints.push_back(match[1].str() + " is twice in the index");
    if (!known.contains(match[1])) complaints.push_back(match[1].str() + " is in the index alone");
  }
  for (const std::string& code : known) {
    if (!indexed.contains(code)) complaints.push_back(code + " is not in the index");
  }
  return complaints;
}

// ---- The tree.

Files tree(const std::set<std::string>& extensions) {
  const fs::path root = SF_SOURCE_DIR;
  std::vector<fs::path> paths = {root / "sectionflow.h", root / "CMakeLists.txt"};
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

const Texts kNone;

TEST(House, IsFound) {
  std::set<std::string> paths;
  for (const SourceFile& file : code()) paths.insert(file.path);
  for (const auto& [folder, allowed] : may_include()) {
    for (const std::string& other : allowed) EXPECT_TRUE(may_include().contains(other)) << folder;
  }
  EXPECT_GT(code().size(), 100U);
  EXPECT_TRUE(paths.contains("sectionflow.h"));
  EXPECT_TRUE(paths.contains("graph/graph.h"));
  EXPECT_TRUE(paths.contains("graph/op_list.inc"));
  EXPECT_TRUE(paths.contains("tests/house/rules.cpp"));
}

TEST(IncludesOf, ReadsQuotesAndBracketsAndNothingElse) {
  const SourceFile file{"base/a.h",
                        "#pragma once\n#include \"base/b.h\"  // why\n  #  include <vector>\n// #include \"c.h\"\n"
                        "const char* text = \"#include <d.h>\";\n"};
  EXPECT_EQ(includes_of(file), (Texts{"base/b.h", "vector"}));
}

TEST(Folders, PlantedIncludesAreFlagged) {
  const auto complaints = [](const std::string& path, const std::string& included) {
    return wrong_folders({{path, "#include \"" + included + "\"\n"}}).size();
  };
  EXPECT_EQ(complaints("base/a.h", "sections/x.h"), 1U);
  EXPECT_EQ(complaints("base/a.h", "graph/graph.h"), 1U);
  EXPECT_EQ(complaints("graph/ops/a.cpp", "autodiff/gradients.h"), 1U);
  EXPECT_EQ(complaints("kernels/cpu/a.cpp", "runtime/arena.h"), 1U);
  EXPECT_EQ(complaints("runtime/a.cpp", "sections/x.h"), 1U);
  EXPECT_EQ(complaints("train/a.cpp", "kernels/kernel.h"), 1U);
  EXPECT_EQ(complaints("graph/a.h", "sectionflow.h"), 1U);
  EXPECT_EQ(complaints("graph/a.h", "tests/support/op_case.h"), 1U);
  EXPECT_EQ(complaints("graph/a.h", "../base/shape.h"), 1U);
  EXPECT_EQ(complaints("attic/a.h", "base/shape.h"), 1U);
  EXPECT_EQ(wrong_folders({{"base/a.h", "#include <graph/graph.h>\n"}}).size(), 1U);
}

TEST(Folders, AllowedIncludesAreNotFlagged) {
  const auto complaints = [](const std::string& path, const std::string& included) {
    return wrong_folders({{path, "#include \"" + included + "\"\n#include <vector>\n#include <sys/mman.h>\n"}});
  };
  EXPECT_EQ(complaints("base/a.h", "base/b.h"), kNone);
  EXPECT_EQ(complaints("train/a.cpp", "data/dataset.h"), kNone);
  EXPECT_EQ(complaints("tests/graph/a.cpp", "sections/x.h"), kNone);
  EXPECT_EQ(complaints("sectionflow.h", "train/progress.h"), kNone);
}

TEST(Folders, IncludeOnlyWhatTheTableAllows) {
  EXPECT_EQ(wrong_folders(code()), kNone);
}

TEST(Folders, DependInCMakeOnlyOnWhatTheTableAllows) {
  EXPECT_EQ(wrong_dependencies({{"base/CMakeLists.txt", "sf_add_folder(base DEPENDS graph LIBRARIES x)\n"}}).size(),
            1U);
  EXPECT_EQ(wrong_dependencies({{"swap/CMakeLists.txt", "sf_add_folder(swap DEPENDS base kernels)\n"}}).size(), 1U);
  EXPECT_EQ(wrong_dependencies({{"swap/CMakeLists.txt", "sf_add_folder(swap DEPENDS runtime base)\n"}}), kNone);
  const Files lists = tree({".txt"});
  EXPECT_GT(lists.size(), may_include().size() - 1);
  EXPECT_EQ(wrong_dependencies(lists), kNone);
}

TEST(OneDnn, HeadersStandInDeviceAndKernelsAlone) {
  EXPECT_EQ(onednn_outside_its_folders({{"runtime/a.cpp", "#include <oneapi/dnnl/dnnl.hpp>\n"}}).size(), 1U);
  EXPECT_EQ(onednn_outside_its_folders({{"graph/a.h", "#include \"dnnl.hpp\"\n"}}).size(), 1U);
  EXPECT_EQ(onednn_outside_its_folders({{"kernels/cpu/a.cpp", "#include <oneapi/dnnl/dnnl.hpp>\n"}}), kNone);
  EXPECT_EQ(onednn_outside_its_folders(code()), kNone);
}

TEST(BoostGraph, HeadersStandInGraphAlone) {
  EXPECT_EQ(boost_graph_outside_its_folder({{"sections/a.cpp", "#include <boost/graph/graphviz.hpp>\n"}}).size(), 1U);
  EXPECT_EQ(boost_graph_outside_its_folder({{"graph/a.cpp", "#include <boost/graph/graphviz.hpp>\n"}}), kNone);
  EXPECT_EQ(boost_graph_outside_its_folder(code()), kNone);
}

TEST(PublicHeaders, AreExportedAndBringNoOthersAlong) {
  const auto complaints = [](const std::string& inner) {
    return wrong_public_headers({{"sectionflow.h", "#include \"graph/a.h\"\n"},
                                 {"graph/a.h", "#include \"graph/b.h\"\nnamespace SF_API sectionflow {}\n"},
                                 {"graph/b.h", inner + "#include \"graph/a.h\"\n"},
                                 {"graph/inner.h", "#include <glog/logging.h>\nnamespace sectionflow {}\n"}});
  };
  EXPECT_EQ(complaints("namespace SF_API sectionflow {}\n"), kNone);
  EXPECT_EQ(complaints("namespace sectionflow {}\n"), (Texts{"graph/b.h wants 'namespace SF_API sectionflow'"}));
  EXPECT_EQ(complaints("#include <nlohmann/json.hpp>\n"), (Texts{"graph/b.h may not include nlohmann/json.hpp"}));
  EXPECT_GT(reached_from("sectionflow.h", code()).size(), 80U);
  EXPECT_EQ(wrong_public_headers(code()), kNone);
}

TEST(Code, HasNoUnfinishedWork) {
  EXPECT_EQ(unfinished_work({{"base/a.h", std::string("int a;\n// TO") + "DO: more\n"}}),
            (Texts{std::string("base/a.h:2: // TO") + "DO: more"}));
  EXPECT_EQ(unfinished_work({{"base/a.h", "mkdtemp(\"folder-XXXXXX\");\n"}}), kNone);
  EXPECT_EQ(unfinished_work(code()), kNone);
  EXPECT_EQ(unfinished_work(tree({".txt", ".cmake"})), kNone);
}

TEST(Code, NamesNoAbsolutePaths) {
  const std::string slash = "/";
  EXPECT_EQ(absolute_paths({{"base/a.h", "open(\"" + slash + "home/me/x\");\n"}}).size(), 1U);
  EXPECT_EQ(absolute_paths({{"base/a.h", "// see " + slash + "tmp/x\n"}}).size(), 1U);
  EXPECT_EQ(absolute_paths({{"base/a.h", std::string("open(\"C:") + "\\\\x\");\n"}}).size(), 1U);
  EXPECT_EQ(absolute_paths({{"base/a.h", "#include \"base/b.h\"\nint c = a / b;\nname + \"/kernel\";\n"}}), kNone);
  EXPECT_EQ(absolute_paths(code()), kNone);
  EXPECT_EQ(absolute_paths(tree({".txt", ".cmake"})), kNone);
}

TEST(Files, StayWithinFourHundredLines) {
  EXPECT_EQ(long_files({{"base/a.h", "1\n2\n3\n"}}, 2), (Texts{"base/a.h has 3 lines"}));
  EXPECT_EQ(long_files({{"base/a.h", "1\n2\n"}, {"tests/base/a.cpp", "1\n2\n3\n"}}, 2), kNone);
  EXPECT_EQ(long_files(code(), 400), kNone);
}

TEST(OpFamilies, MissingAndStrayRoomsAreFlagged) {
  const std::string list = "// one line a family\nSF_OP_FAMILY(pool)\n";
  const Files all = {{"graph/ops/pool.h", ""},
                     {"graph/ops/pool.cpp", ""},
                     {"autodiff/gradients/pool.cpp", ""},
                     {"kernels/cpu/pool.cpp", ""},
                     {"tests/ops/pool.cpp", ""}};
  EXPECT_EQ(missing_and_stray_rooms(list, all), kNone);
  for (std::size_t i = 0; i < all.size(); ++i) {
    Files without = all;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_EQ(missing_and_stray_rooms(list, without), (Texts{text_of("family pool has no room ", all[i].path)}));
  }
  Files more = all;
  more.push_back({"graph/ops/attic.cpp", ""});
  EXPECT_EQ(missing_and_stray_rooms(list, more), (Texts{"graph/ops/attic.cpp belongs to no family"}));
  more[1].text = "#include \"graph/ops/attic.h\"\n";
  EXPECT_EQ(missing_and_stray_rooms(list, more), (Texts{"graph/ops/attic.cpp belongs to no family"}));
}

TEST(OpFamilies, HaveAllTheirRooms) {
  const auto list =
      std::find_if(code().begin(), code().end(), [](const SourceFile& f) { return f.path == "graph/op_list.inc"; });
  ASSERT_NE(list, code().end());
  EXPECT_GE(families_of(list->text).size(), 16U);
  EXPECT_EQ(missing_and_stray_rooms(list->text, code()), kNone);
}

TEST(ErrorCodes, FindsCodesThatOneOfTheListsLacks) {
  const std::string codes = "enum {\n  good = 10,\n  lonely = 20,\n};\n";
  // In pieces, so that this file is no test of them.
  const std::string good = std::string("SF-") + "E010", lonely = std::string("SF-") + "E020";
  const Files files = {{"graph/a.cpp", "throw ErrorCode::good"}, {"tests/a.cpp", good}};
  EXPECT_EQ(wrong_error_codes(codes, "## " + good + " Good\n## SF-E999 Gone\n", files),
            (Texts{lonely + " is thrown by nobody", lonely + " has no test", "SF-E999 is in the index alone",
                   lonely + " is not in the index"}));
}

std::string text_of_file(const std::string& path) {
  std::ifstream stream(fs::path(SF_SOURCE_DIR) / path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(ErrorCodes, OfTheSourcesTheIndexAndTheTestsAreTheSame) {
  const std::string codes = text_of_file("base/error_code.h");
  ASSERT_NE(codes.find("budget = 101,"), std::string::npos);
  EXPECT_EQ(wrong_error_codes(codes, text_of_file("docs/errors.md"), code()), kNone);
}

}  // namespace
}  // namespace sectionflow

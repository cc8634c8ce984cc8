// What no file may say, and how long it may be.

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "tests/house/source_tree.h"

namespace sectionflow::house {
namespace {

std::string quoted_line(const SourceFile& file, std::size_t index, const std::string& line) {
  return file.path + ":" + std::to_string(index + 1) + ": " + line;
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
  // Where Debian keeps the data set and the licences: the same on every machine.
  static const Texts allowed = {"kFashionMnistFolder = ", "kLicenceFolder = "};
  return lines_that_match(files, pattern, allowed);
}

Texts long_files(const Files& files, std::size_t most_lines) {
  Texts complaints;
  for (const SourceFile& file : files) {
    const std::size_t num_lines = lines_of(file.text).size();
    if (num_lines > most_lines) complaints.push_back(file.path + " has " + std::to_string(num_lines) + " lines");
  }
  return complaints;
}

/// What is different in each major version of oneDNN, outside of the one place that knows it.
Texts onednn_versions_outside_their_place(const Files& files) {
  static const std::regex pattern(
      "DNNL_"
      "VERSION|dnnl::(?!memory)\\w+::desc\\b");
  Files others;
  std::copy_if(files.begin(), files.end(), std::back_inserter(others),
               [](const SourceFile& file) { return file.path != "device/onednn.cpp"; });
  return lines_that_match(others, pattern);
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

/// What writes a file other than through base/atomic_file, so that a failure leaves half of one.
Texts unsafe_writers(const Files& files) {
  static const std::regex pattern(
      "\\b(w?o?fstream|basic_o?fstream|f(re)?open|open_memstream|creat|O_(WRONLY|RDWR))\\b");
  Texts complaints;
  for (const SourceFile& file : files) {
    // The swap file has no name, and nobody reads it but its process; a checkpoint is a folder that appears whole; a
    // log grows by whole records; tests plant files.
    static const std::set<std::string> allowed = {"base/append_file.cpp", "base/atomic_file.cpp",
                                                  "runtime/swap_file.cpp", "train/checkpoint_folder.cpp"};
    if (file.folder() == "tests" || allowed.contains(file.path)) continue;
    const Texts found = lines_that_match({file}, pattern);
    complaints.insert(complaints.end(), found.begin(), found.end());
  }
  return complaints;
}

TEST(Code, WritesFilesThatAppearWholeOrNotAtAll) {
  EXPECT_EQ(unsafe_writers({{"train/a.cpp", "#include <fstream>\nstd::ofstream file(path);\n"}}).size(), 2U);
  EXPECT_EQ(unsafe_writers({{"bench/a.cpp", "FILE* file = std::fopen(path, \"w\");\n"}}).size(), 1U);
  EXPECT_EQ(unsafe_writers({{"examples/a.cpp", "std::fstream file(path, std::ios::out);\n"}}).size(), 1U);
  EXPECT_EQ(unsafe_writers({{"swap/a.cpp", "open(path, O_WRONLY | O_CREAT, 0666);\n"}}).size(), 1U);
  EXPECT_EQ(unsafe_writers({{"tests/a.cpp", "std::ofstream file(path);\n"}}), kNone);
  EXPECT_EQ(unsafe_writers({{"data/a.cpp", "std::ifstream file(path);\nfile.open_();\n"}}), kNone);
  EXPECT_EQ(unsafe_writers(code()), kNone);
}

TEST(Code, TellsVersionsOfOneDnnApartInOnePlace) {
  const std::string version = "#if DNNL_" + std::string("VERSION_MAJOR == 2\n"),
                    desc = "dnnl::matmul::" + std::string("desc d;\n");
  EXPECT_EQ(onednn_versions_outside_their_place({{"kernels/cpu/a.cpp", version + desc}}).size(), 2U);
  EXPECT_EQ(onednn_versions_outside_their_place({{"device/onednn.cpp", version}}), kNone);
  EXPECT_EQ(onednn_versions_outside_their_place({{"kernels/a.h", "dnnl::memory::desc a;\n"}}), kNone);
  EXPECT_EQ(onednn_versions_outside_their_place(code()), kNone);
}

/// Templates that take templates: GCC 12 gives what is made of them external linkage although the templates that they
/// get stand in unnamed namespaces, so that files which name theirs alike get each other's code. Classes do as well.
Texts templates_of_templates(const Files& files) {
  static const std::regex pattern("(\\btemplate\\s*<|,)\\s*template\\s*<");
  return lines_that_match(files, pattern);
}

TEST(Code, TakesNoTemplatesAsArgumentsOfTemplates) {
  const auto complaints = [](const std::string& line) {
    return templates_of_templates({{"kernels/a.h", line}}).size();
  };
  const std::string inner = "template " + std::string("<class> class Pass");
  EXPECT_EQ(complaints("template <" + inner + ">\n"), 1U);
  EXPECT_EQ(complaints("template <class T, " + inner + ">\n"), 1U);
  EXPECT_EQ(complaints("template <class Passes>\nreturn Passes::template forward<T, kHasWeights>(request);\n"), 0U);
  EXPECT_EQ(templates_of_templates(code()), kNone);
}

TEST(Files, StayWithinFourHundredLines) {
  EXPECT_EQ(long_files({{"base/a.h", "1\n2\n3\n"}}, 2), (Texts{"base/a.h has 3 lines"}));
  EXPECT_EQ(long_files({{"base/a.h", "1\n2\n"}, {"tests/base/a.cpp", "1\n2\n3\n"}}, 2),
            (Texts{"tests/base/a.cpp has 3 lines"}));
  EXPECT_EQ(long_files(code(), 400), kNone);
}

}  // namespace
}  // namespace sectionflow::house

// The codes of errors are the same wherever they are listed.

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <string>

#include "base/error.h"
#include "tests/house/source_tree.h"

namespace sectionflow::house {
namespace {

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

TEST(ErrorCodes, FindsCodesThatOneOfTheListsLacks) {
  const std::string codes = "enum {\n  good = 10,\n  lonely = 20,\n};\n";
  // In pieces, so that this file is no test of them.
  const std::string good = std::string("SF-") + "E010", lonely = std::string("SF-") + "E020";
  const Files files = {{"graph/a.cpp", "throw ErrorCode::good"}, {"tests/a.cpp", good}};
  EXPECT_EQ(wrong_error_codes(codes, "## " + good + " Good\n## SF-E999 Gone\n", files),
            (Texts{lonely + " is thrown by nobody", lonely + " has no test", "SF-E999 is in the index alone",
                   lonely + " is not in the index"}));
}

TEST(ErrorCodes, OfTheSourcesTheIndexAndTheTestsAreTheSame) {
  const std::string codes = text_of_file("base/error_code.h");
  ASSERT_NE(codes.find("budget = 101,"), std::string::npos);
  EXPECT_EQ(wrong_error_codes(codes, text_of_file("docs/errors.md"), code()), kNone);
}

}  // namespace
}  // namespace sectionflow::house

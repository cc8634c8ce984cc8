// One word for one thing: the glossary of docs/architecture.md. Words of our own that it has replaced stay out of
// names, comments, errors and pages.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "tests/house/source_tree.h"

namespace sectionflow::house {
namespace {

struct OldWord {
  std::regex pattern;
  std::string instead;
};

/// In pieces, so that this file does not complain about itself. What is English besides stays allowed: "the rest" of
/// something, "home" in the path of a folder, a replay, a display, room for something.
const std::vector<OldWord>& old_words() {
  const auto any = [](const std::string& pattern) { return std::regex(pattern, std::regex::icase); };
  static const std::vector<OldWord> words = {
      {any("\\bre"
           "sts\\b|\\bre"
           "sting\\b|\\bre"
           "sted\\b|\\bat re"
           "st\\b|(\\b|_)re"
           "sts?_|_re"
           "sts?\\b"),
       "offload"},
      {std::regex("\\bRe"
                  "sts?\\b(?=[ &>{(;:])|Re"
                  "sts?[A-Z]|[a-z]Re"
                  "sts?\\b"),
       "offload"},
      {any("\\btr"
           "ips?\\b|\\btra"
           "vel|_tra"
           "vel"),
       "transfer, offload"},
      {std::regex("[a-z]Tr"
                  "ips?\\b|\\bTr"
                  "ips?[A-Z]"),
       "transfer"},
      {any("\\bat ho"
           "me\\b|\\bho"
           "mes\\b|\\b(comes?|came|goes|go|gone|going|went|way|from|back) ho"
           "me\\b"),
       "home tier"},
      {any("(\\b|_)pl"
           "ay(s|ed|ing|ings|er|ers)?(\\b|_)"),
       "execute; simulate; fake or emulated in tests"},
      {std::regex("\\bPl"
                  "ay(s|ed|ing|er)?[A-Z]|[a-z]Pl"
                  "ay(er)?\\b"),
       "execute; simulate; fake or emulated in tests"},
      {any("(\\b|_)ro"
           "oms?_|_ro"
           "oms?\\b"),
       "capacity"},
      {std::regex("\\bRo"
                  "oms?[A-Z]|[a-z]Ro"
                  "oms?\\b"),
       "capacity"},
      {any("\\bscri"
           "pts? (line|step)|(\\b|_)scri"
           "pts?_|_scri"
           "pts?\\b|\\b(a|the|this|that|each|every|one) scri"
           "pts?\\b(?! (of|in) )"),
       "instruction list"},
      {std::regex("\\bScri"
                  "pts?\\b|Scri"
                  "pt[A-Z]|[a-z]Scri"
                  "pts?\\b"),
       "instruction list"},
  };
  return words;
}

/// Part of every old word: few lines have one, and patterns are slow.
bool may_have_old_word(std::string line) {
  std::transform(line.begin(), line.end(), line.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::any_of(std::initializer_list<const char*>{"re"
                                                                "st",
                                                                "tr"
                                                                "ip",
                                                                "tra"
                                                                "vel",
                                                                "ho"
                                                                "me",
                                                                "pl"
                                                                "ay",
                                                                "ro"
                                                                "om",
                                                                "scri"
                                                                "pt"},
                             [&](const char* part) { return line.find(part) != std::string::npos; });
}

std::string old_word_in(const std::string& line) {
  if (!may_have_old_word(line)) return "";
  for (const OldWord& word : old_words()) {
    std::smatch match;
    if (std::regex_search(line, match, word.pattern)) return "'" + match.str() + "'; wanted " + word.instead;
  }
  return "";
}

Texts old_words_in(const Files& files) {
  Texts complaints;
  for (const SourceFile& file : files) {
    const Texts lines = lines_of(file.text);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::string found = old_word_in(lines[i]);
      if (!found.empty()) complaints.push_back(file.path + ":" + std::to_string(i + 1) + " says " + found);
    }
  }
  return complaints;
}

/// Code, and pages for people.
Files all_texts() {
  Files files = code();
  for (SourceFile& page : tree({".md", ".txt", ".cmake"})) files.push_back(std::move(page));
  return files;
}

TEST(Words, OldOnesAreFlaggedWhereverTheyStand) {
  const auto found = [](const std::string& line) { return old_words_in({{"docs/a.md", line + "\n"}}).size(); };
  for (const std::string line : {"the tensor re"
                                 "sts in host memory",
                                 "struct Re"
                                 "st {",
                                 "int num_re"
                                 "sts = 0;",
                                 "insert_re"
                                 "sts(list)",
                                 "a value at re"
                                 "st",
                                 "bytes that tra"
                                 "vel",
                                 "VariableTr"
                                 "ip t;",
                                 "variables at ho"
                                 "me",
                                 "it comes ho"
                                 "me again",
                                 "session.pl"
                                 "ay(program)",
                                 "class Pl"
                                 "aying",
                                 "RelaxedPl"
                                 "ay p;",
                                 "device_ro"
                                 "om(rung)",
                                 "struct HostRo"
                                 "om",
                                 "lower_scri"
                                 "pt(x)",
                                 "Scri"
                                 "pt s;",
                                 "a scri"
                                 "pt is lowered"}) {
    EXPECT_EQ(found(line), 1U) << line;
  }
}

TEST(Words, PlainEnglishIsNotFlagged) {
  const auto found = [](const std::string& line) { return old_words_in({{"docs/a.md", line + "\n"}}).size(); };
  for (const std::string line :
       {"the rest of the graph", "and the rest goes", "restore, restrict, the nearest, interest",
        "a replay of the node", "there is room for one tensor", "displayed", "scripts/test.sh is run", "a description",
        "the five rooms of an op", "$HOME/sectionflow", "its home tier is the host"}) {
    EXPECT_EQ(found(line), 0U) << line;
  }
}

TEST(Words, OldOnesAreNowhereInTheTree) {
  EXPECT_EQ(old_words_in(all_texts()), kNone);
}

}  // namespace
}  // namespace sectionflow::house

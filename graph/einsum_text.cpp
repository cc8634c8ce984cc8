#include "graph/einsum_text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <utility>

#include "base/error.h"

namespace sectionflow {
namespace {

// Letters and spaces of ASCII: what <cctype> says of others depends on the locale.
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

std::string shown_byte(char c) {
  if (c >= ' ' && c <= '~') return {c};
  std::array<char, 8> text{};
  (void)std::snprintf(text.data(), text.size(), "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
  return text.data();
}

/// A text that is read from left to right.
struct TextReader {
  const std::string& label;
  std::string_view text;
  std::size_t at = 0;

  bool is_at_end() const { return at >= text.size(); }
  void skip_spaces() {
    while (!is_at_end() && is_space(text[at])) ++at;
  }
  bool takes(std::string_view sign) {
    skip_spaces();
    if (!text.substr(at).starts_with(sign)) return false;
    at += sign.size();
    return true;
  }
};

/// Throws: ArgumentError that says what stands at `place`, counted from 1.
[[noreturn]] void refuse_text(const TextReader& reader, std::size_t place, const std::string& wanted) {
  const std::string found = place < reader.text.size()
                                ? text_of("character ", place + 1, " is '", shown_byte(reader.text[place]), "'")
                                : text_of("the text ends after ", reader.text.size(), " characters");
  throw ArgumentError(text_of(reader.label, ": ", found, "; wanted ", wanted));
}

/// A term and, for each of its letters, where it stands.
struct PlacedTerm {
  IndexTerm term;
  std::vector<std::size_t> places;
};

PlacedTerm read_term(TextReader& reader) {
  PlacedTerm read;
  for (reader.skip_spaces(); !reader.is_at_end(); reader.skip_spaces()) {
    const char c = reader.text[reader.at];
    if (is_letter(c)) {
      read.term.letters += c;
      read.places.push_back(reader.at++);
    } else if (c == '.') {
      if (read.term.has_ellipsis()) refuse_text(reader, reader.at, "one '...' in a term");
      read.term.ellipsis = static_cast<int>(read.term.letters.size());
      if (!reader.takes("...")) refuse_text(reader, reader.at, "'...', three points without space");
    } else {
      break;
    }
  }
  return read;
}

bool has_ellipsis(const std::vector<IndexTerm>& terms) {
  return std::ranges::any_of(terms, &IndexTerm::has_ellipsis);
}

/// All letters, sorted.
std::string letters_of(const std::vector<IndexTerm>& terms) {
  std::string all;
  for (const IndexTerm& term : terms) all += term.letters;
  std::ranges::sort(all);
  return all;
}

IndexTerm implicit_result(const std::vector<IndexTerm>& operands) {
  IndexTerm result{.letters = {}, .ellipsis = has_ellipsis(operands) ? 0 : IndexTerm::kNoEllipsis};
  const std::string all = letters_of(operands);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool is_again = i > 0 && all[i - 1] == all[i], comes_again = i + 1 < all.size() && all[i + 1] == all[i];
    if (!is_again && !comes_again) result.letters += all[i];
  }
  return result;
}

/// Throws: ArgumentError for letters that no operand has, or twice in the result, and for "..." on one side alone.
void check_result(const TextReader& reader, const PlacedTerm& result, const std::vector<IndexTerm>& operands) {
  std::string known = letters_of(operands);
  known.erase(std::unique(known.begin(), known.end()), known.end());
  const std::string& letters = result.term.letters;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    if (known.find(letters[i]) == std::string::npos) {
      refuse_text(
          reader, result.places[i],
          known.empty() ? "no index in the result, since no operand has one" : "an index of an operand: " + known);
    }
    if (letters.find(letters[i]) < i) refuse_text(reader, result.places[i], "each index of the result once");
  }
  if (result.term.has_ellipsis() != has_ellipsis(operands)) {
    refuse_text(reader, reader.at,
                has_ellipsis(operands) ? "'...' in the result, as in an operand"
                                       : "no '...' in the result, since no operand has it");
  }
}

}  // namespace

EinsumText read_einsum(const std::string& label, std::string_view text) {
  TextReader reader{label, text};
  EinsumText read;
  do {
    read.operands.push_back(read_term(reader).term);
  } while (reader.takes(","));
  if (reader.takes("->")) {
    const PlacedTerm result = read_term(reader);
    if (!reader.is_at_end()) refuse_text(reader, reader.at, "letters and '...' behind '->', and then the end");
    check_result(reader, result, read.operands);
    read.result = result.term;
  } else {
    if (!reader.is_at_end()) refuse_text(reader, reader.at, "a letter, '...', ',' or '->'");
    read.result = implicit_result(read.operands);
  }
  return read;
}

std::string quoted_einsum(std::string_view text) {
  constexpr std::size_t kMost = 100;
  std::string quoted = "'";
  for (const char c : text.substr(0, kMost)) quoted += shown_byte(c);
  return quoted + (text.size() > kMost ? "...'" : "'");
}

}  // namespace sectionflow

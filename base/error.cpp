#include "base/error.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace sectionflow {
namespace {

// Facts in the order in which they are shown; others stand between these and the hint.
constexpr std::array<std::string_view, 4> kFirstFacts = {"where", "call", "earlier", "inputs"};

std::size_t rank(std::string_view name) {
  if (name == "hint") return kFirstFacts.size() + 1;
  return static_cast<std::size_t>(std::find(kFirstFacts.begin(), kFirstFacts.end(), name) - kFirstFacts.begin());
}

std::string whole_text(ErrorCode code, const char* type, const std::string& message, const std::vector<Fact>& facts) {
  std::string text = code_text(code);
  text += ' ';
  text += type;
  text += ": ";
  text += message;
  for (std::size_t wanted = 0; wanted <= kFirstFacts.size() + 1; ++wanted) {
    for (const Fact& fact : facts) {
      if (rank(fact.name) != wanted || fact.text.empty()) continue;
      // In one column behind the longest usual name, "earlier:".
      const std::size_t spaces = fact.name.size() < 8 ? 8 - fact.name.size() : 1;
      text += "\n  ";
      text += fact.name;
      text += ':';
      text.append(spaces, ' ');
      text += fact.text;
    }
  }
  return text;
}

}  // namespace

std::string code_text(ErrorCode code) {
  const std::string digits = std::to_string(static_cast<int>(code));
  std::string text = "SF-E";
  text.append(digits.size() < 3 ? 3 - digits.size() : 0, '0');
  text += digits;
  return text;
}

Error::Error(ErrorText text, ErrorCode code, const char* type)
    : std::runtime_error(""),
      code_(code),
      type_(type),
      message_(std::move(text.message)),
      facts_(std::move(text.facts)),
      text_(whole_text(code_, type_, message_, facts_)) {}

std::string Error::fact(std::string_view name) const {
  const auto found = std::find_if(facts_.begin(), facts_.end(), [&](const Fact& fact) { return fact.name == name; });
  return found == facts_.end() ? std::string() : found->text;
}

void Error::add_fact(std::string_view name, std::string_view fact) {
  if (fact.empty() || !this->fact(name).empty()) return;
  facts_.push_back({std::string(name), std::string(fact)});
  text_ = whole_text(code_, type_, message_, facts_);
}

bool Where::known() const {
  // The folder in which both libstdc++ and libc++ are installed.
  return file != nullptr && std::string_view(file).find("/include/c++/") == std::string_view::npos;
}

std::string Where::text() const {
  if (!known()) return {};
  const std::string_view path = file;
  return std::string(path.substr(path.find_last_of('/') + 1)) + ":" + std::to_string(line);
}

}  // namespace sectionflow

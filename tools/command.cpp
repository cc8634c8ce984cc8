#include "tools/command.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <iostream>
#include <regex>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/nearest.h"

namespace sectionflow {
namespace {

/// The sub-command that was asked for, or the program where none was.
const CLI::App& asked_for(const CLI::App& program) {
  const std::vector<CLI::App*> commands = program.get_subcommands();
  return commands.empty() ? program : *commands.front();
}

/// What could stand where a word was not understood: names of options behind a sub-command, else of sub-commands.
std::vector<std::string> known_words(const CLI::App& app, bool is_option) {
  std::vector<std::string> words;
  if (is_option) {
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
    }
  } else {
    for (const CLI::App* command : app.get_subcommands(nullptr)) words.push_back(command->get_name());
  }
  return words;
}

/// The words of the command line that nothing has taken.
std::vector<std::string> unknown_words(const CLI::App& program) {
  std::vector<std::string> words = program.remaining();
  for (const CLI::App* command : program.get_subcommands()) {
    for (const std::string& word : command->remaining()) words.push_back(word);
  }
  return words;
}

int refuse(const CLI::App& program, const std::string& message) {
  const CLI::App& app = asked_for(program);
  const std::string name = &app == &program ? program.get_name() : program.get_name() + " " + app.get_name();
  std::cerr << name << ": " << message << "\n"
            << "try '" << name << " --help'\n";
  return 2;
}

/// What the parser says of an option that is given too often, or without its value, in words.
std::string parse_text(const CLI::ParseError& error) {
  static const std::pair<std::regex, const char*> kTexts[] = {
      {std::regex(R"(^(.{1,80}): At Most 1 required but received (\d+)$)"), "$1: is given $2 times; wanted once"},
      {std::regex(R"(^(.{1,80}): 1 required (?:[A-Z]+:)?(.*) missing$)"), "$1: its value is missing; wanted $2"}};
  std::string text = error.what();
  for (const auto& [parser, words] : kTexts) text = std::regex_replace(text, parser, words);
  return text;
}

int refuse_unknown(const CLI::App& program) {
  const CLI::App& app = asked_for(program);
  const std::string word = unknown_words(program).front();
  const std::string name = word.substr(0, word.find('='));
  const bool is_option = name.starts_with("-");
  const std::string what = is_option ? "option" : &app == &program ? "sub-command" : "argument that is wanted";
  return refuse(program, text_of("'", word, "' is no ", what, did_you_mean(name, known_words(app, is_option))));
}

/// Whether a text is a place in a source of C++: "train_command.cpp:84".
bool is_source_place(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon + 1 == text.size()) return false;
  const std::string_view file = text.substr(0, colon), line = text.substr(colon + 1);
  const bool is_number = std::all_of(line.begin(), line.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_number && file.find_first_of(" '\"") == std::string_view::npos &&
         (file.ends_with(".cpp") || file.ends_with(".h"));
}

/// A line of an error's text, "  where:   section 3 'head', model.cpp:84", without the place in a source at its end;
/// empty where nothing else stands there.
std::string_view without_source_place(std::string_view line) {
  constexpr std::array<std::string_view, 3> kPlaces = {"  where:", "  call:", "  earlier:"};
  const auto name = std::find_if(kPlaces.begin(), kPlaces.end(), [&](auto each) { return line.starts_with(each); });
  if (name == kPlaces.end()) return line;
  const std::size_t fact = std::min(line.find_first_not_of(' ', name->size()), line.size());
  const std::size_t comma = line.rfind(", ");
  const bool has_more = comma != std::string_view::npos && comma >= fact;
  if (!is_source_place(line.substr(has_more ? comma + 2 : fact))) return line;
  return has_more ? line.substr(0, comma) : std::string_view();
}

/// What errors advise to callers of the library, and what does the same here.
const std::vector<std::pair<std::regex, std::string>>& advice_for_the_shell() {
  static const std::vector<std::pair<std::regex, std::string>> advice = {
      {std::regex(R"(\(fit_budget\(session\)\))"), "(--strategy auto)"},
      {std::regex(R"(\(FitBudgetOptions::may_(swap|recompute)\))"), "(--strategy auto)"},
      {std::regex(R"(\bFitBudgetOptions::plan\b)"), "--plan"},
      {std::regex(R"( \(save_plan\))"), ""},
      {std::regex(R"(\(SectionOptions\{\.(borders|interior) = (Border|Interior)Policy::automatic\}\))"),
       "(--strategy sections+swap:N)"},
      {std::regex(R"(\(BorderPolicy::automatic, InteriorPolicy::automatic\))"), "(--strategy sections+swap:N)"},
      {std::regex(R"(\(GraphSectionManager::run_full_cycle\))"), "(--strategy sections:N)"},
      {std::regex(R"(take \{\.device = cpu\(\)\}, or best_device\(\))"), "take --device cpu, or --device best"},
      {std::regex(R"(take \{\.device = cpu\(\)\})"), "take --device cpu"},
      {std::regex(R"(make the session with \{\.threads = (\d+)\})"), "give --threads $1"},
      {std::regex(R"(leave link_bandwidth at 0)"), "leave --link out"},
      {std::regex(R"(\bFitOptions::validation\b)"), "--validation"},
      {std::regex(R"(\bDataset::on_error\b)"), "--on-error"},
      {std::regex(R"(\b(SessionOptions::)?(device|host)_memory\b)"), "--$2-memory"},
      {std::regex(R"(\bSessionOptions::disk\b)"), "--disk"},
      {std::regex(R"(\b(SessionOptions::)?swap_directory\b)"), "--swap-directory"},
      {std::regex(R"(take a smaller window)"), "give a smaller --sequence"},
      // What no option of ours does. Words of any length would take as much of the stack.
      {std::regex(R"(\b\w{1,60}(Options|Policy)::\w{1,60}\b)"), "in C++ $&"},
  };
  return advice;
}

/// A text, what stands between quotes, such as somebody's paths, as it is, and the parts between changed.
std::string outside_of_quotes(std::string_view text, const std::function<std::string(std::string)>& changed) {
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  std::string all;
  std::size_t begin = 0;
  for (std::size_t open = text.find('\''); open != std::string_view::npos; open = text.find('\'', open)) {
    const std::size_t close = text.find('\'', open + 1);
    // As in "model's".
    const bool is_apostrophe = open > 0 && is_letter(text[open - 1]);
    if (is_apostrophe || close == std::string_view::npos) {
      ++open;
      continue;
    }
    all += changed(std::string(text.substr(begin, open - begin)));
    all += text.substr(open, close + 1 - open);
    begin = open = close + 1;
  }
  return all + changed(std::string(text.substr(begin)));
}

}  // namespace

std::string shell_text(const Error& error) {
  std::string text;
  std::string_view left = error.what();
  for (bool is_first = true; !left.empty(); is_first = false) {
    const std::size_t end = std::min(left.find('\n'), left.size());
    const std::string_view line = left.substr(0, end), shown = is_first ? line : without_source_place(line);
    if (!shown.empty() || line.empty()) text += text_of(is_first ? "" : "\n", shown);
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return outside_of_quotes(text, [](std::string part) {
    for (const auto& [call, option] : advice_for_the_shell()) part = std::regex_replace(part, call, option);
    return part;
  });
}

std::string did_you_mean(const std::string& word, std::span<const std::string> candidates) {
  const auto near = nearest_spelling(word, candidates);
  return near && *near != word ? "; did you mean '" + *near + "'?" : "";
}

std::string joined(std::span<const std::string> words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return all;
}

void check_known(const std::string& word, const std::vector<std::string>& known, const std::string& what) {
  for (const std::string& each : known) {
    if (each == word) return;
  }
  throw ArgumentError(error_text_of(what, did_you_mean(word, known), hint("there are ", joined(known))));
}

int run_commands(CLI::App& program, const RunCommand& run, int argc, char** argv) {
  start_logging(argv[0]);
  // Words that are not understood are looked at below; the parser's own text does not know what is near.
  program.allow_extras();
  for (CLI::App* command : program.get_subcommands(nullptr)) command->allow_extras();
  try {
    program.parse(argc, argv);
    if (!unknown_words(program).empty()) return refuse_unknown(program);
    if (!run) return refuse(program, "which sub-command? " + joined(known_words(program, false)));
    return run();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);
    if (!unknown_words(program).empty()) return refuse_unknown(program);
    return refuse(program, parse_text(error));
  } catch (const Error& error) {
    std::cerr << shell_text(error) << "\n";
    return 2;
  } catch (const std::bad_alloc&) {
    std::cerr << "sectionflow: the machine's memory is exhausted\n";
    return 2;
  } catch (const std::exception& error) {  // of the file system, as of links that lead round in a circle
    std::cerr << "sectionflow: " << error.what() << "\n";
    return 2;
  }
}

}  // namespace sectionflow

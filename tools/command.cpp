#include "tools/command.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iostream>
#include <regex>
#include <sstream>
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

/// "'plan' and 'train'": the sub-commands that have the option; empty: none.
std::string owners_of(const CLI::App& program, const std::string& option) {
  std::vector<std::string> owners;
  for (const CLI::App* command : program.get_subcommands(nullptr)) {
    if (command->get_option_no_throw(option) != nullptr) owners.push_back("'" + command->get_name() + "'");
  }
  std::string text;
  for (std::size_t i = 0; i < owners.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == owners.size() ? " and " : ", ") + owners[i];
  }
  return text;
}

/// What does what somebody looks for under the name of a sub-command: "plan --explain"; empty: nothing.
std::string other_call(const CLI::App& program, const std::string& word) {
  for (const CLI::App* command : program.get_subcommands(nullptr)) {
    const CLI::Option* const option = command->get_option_no_throw("--" + word);
    if (option != nullptr && option->get_items_expected_max() == 0) return command->get_name() + " --" + word;
  }
  return {};
}

int refuse_unknown(const CLI::App& program) {
  const CLI::App& app = asked_for(program);
  const std::string word = unknown_words(program).front();
  const std::string name = word.substr(0, word.find('='));
  const bool is_option = name.starts_with("-");
  const std::string owners = is_option && name.starts_with("--") ? owners_of(program, name) : "";
  if (!owners.empty()) return refuse(program, text_of("'", name, "' is an option of ", owners));
  const std::string other = !is_option && &app == &program ? other_call(program, name) : "";
  if (!other.empty()) return refuse(program, text_of("'", name, "' is no sub-command; '", other, "' does that"));
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
      // Most data have a part for it that nobody has asked for.
      {std::regex(R"( of FitOptions::validation\b)"), ""},
      {std::regex(R"(\bFitOptions::validation\b)"), "what is evaluated on"},
      {std::regex(R"(\bDataset::on_error\b)"), "--on-error"},
      {std::regex(R"(\b(SessionOptions::)?(device|host)_memory\b)"), "--$2-memory"},
      {std::regex(R"(\bSessionOptions::disk\b)"), "--disk"},
      {std::regex(R"(\bFitBudgetOptions::effort\b)"), "--effort"},
      {std::regex(R"(\b(SessionOptions::)?swap_directory\b)"), "--swap-directory"},
      {std::regex(R"(\b(SessionOptions::)?swap_variables\b)"), "--swap-variables"},
      {std::regex(
           R"(calibrate\(graph, dataset\) finds them on examples, after fold_constants, fold_batch_norms and fuse)"),
       "leave quantize_nodes to --quantize DATA, which finds them on examples, behind --transforms"},
      {std::regex(R"(save_inference_graph writes such files; files of variables are for load_variables)"),
       "sectionflow freeze makes such files of checkpoints and of variables"},
      {std::regex(R"(take a smaller window)"), "give a smaller --sequence"},
      // What no option of ours does. Words of any length would take as much of the stack.
      {std::regex(R"(\b\w{1,60}(Options|Policy)::\w{1,60}\b)"), "in C++ $&"},
  };
  return advice;
}

bool is_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

std::string with_advice(std::string text) {
  for (const auto& [call, option] : advice_for_the_shell()) text = std::regex_replace(text, call, option);
  return text;
}

/// Marks what stands between quotes. Those with letters on both sides are apostrophes, as in "model's".
void keep_quoted(std::string_view text, std::vector<bool>& is_kept) {
  for (std::size_t open = text.find('\''); open != std::string_view::npos; open = text.find('\'', open)) {
    std::size_t close = open > 0 && is_letter(text[open - 1]) ? std::string_view::npos : text.find('\'', open + 1);
    while (close != std::string_view::npos && close + 1 < text.size() && is_letter(text[close + 1])) {
      close = text.find('\'', close + 1);
    }
    if (close != std::string_view::npos) {
      std::fill(is_kept.begin() + static_cast<std::ptrdiff_t>(open),
                is_kept.begin() + static_cast<std::ptrdiff_t>(close + 1), true);
      open = close;
    }
    ++open;
  }
}

/// The parts of a word of the command line that errors may show, and that would be changed: of KIND:PATH and
/// --option=PATH the path, and the names in it that have an apostrophe. One that reads as the name of an option of the
/// library is not told from that.
std::vector<std::string> parts_to_keep(const std::string& word) {
  constexpr std::size_t kLongestPath = 4096;
  if (word.size() > kLongestPath) return {};
  std::vector<std::string> parts = {word};
  for (const char separator : {'=', ':'}) {
    const std::size_t found = word.find(separator);
    if (found != std::string::npos) parts.push_back(word.substr(found + 1));
  }
  std::istringstream names(word);
  for (std::string name; std::getline(names, name, '/');) {
    if (name.find('\'') != std::string::npos) parts.push_back(name);
  }
  static const std::regex name_of_library(R"((\w+::)?\w+)");
  std::erase_if(parts, [](const std::string& part) {
    return part.empty() || std::regex_match(part, name_of_library) || with_advice(part) == part;
  });
  return parts;
}

void keep_word(const std::string& word, std::string_view text, std::vector<bool>& is_kept) {
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool is_whole = (at == 0 || !is_letter(text[at - 1])) && (end == text.size() || !is_letter(text[end]));
    if (!is_whole) continue;
    std::fill(is_kept.begin() + static_cast<std::ptrdiff_t>(at), is_kept.begin() + static_cast<std::ptrdiff_t>(end),
              true);
  }
}

/// A text with what is advised as one does it here, except in what is somebody's own.
std::string advised_outside(std::string_view text, const std::vector<bool>& is_kept) {
  std::string all;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    while (end < text.size() && is_kept[end] == is_kept[begin]) ++end;
    const std::string part(text.substr(begin, end - begin));
    all += is_kept[begin] ? part : with_advice(part);
  }
  return all;
}

}  // namespace

std::string shell_text(const Error& error, std::span<const std::string> words) {
  std::string text;
  std::string_view left = error.what();
  for (bool is_first = true; !left.empty(); is_first = false) {
    const std::size_t end = std::min(left.find('\n'), left.size());
    const std::string_view line = left.substr(0, end), shown = is_first ? line : without_source_place(line);
    if (!shown.empty() || line.empty()) text += text_of(is_first ? "" : "\n", shown);
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  std::vector<bool> is_kept(text.size());
  keep_quoted(text, is_kept);
  for (const std::string& word : words) {
    for (const std::string& part : parts_to_keep(word)) keep_word(part, text, is_kept);
  }
  return advised_outside(text, is_kept);
}

std::string shell_word(const std::string& word) {
  const auto is_plain = [](char c) {
    return is_letter(c) || std::string_view("_@%+=:,./-").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  // What steers a terminal, U+0080 to U+009F too, is written as its bytes.
  const auto is_control = [&](std::size_t i) {
    const auto at = [&](std::size_t place) {
      return static_cast<unsigned char>(place < word.size() ? word[place] : 0);
    };
    const bool is_second = i > 0 && at(i - 1) == 0xC2 && at(i) >= 0x80 && at(i) < 0xA0;
    return at(i) < 0x20 || at(i) == 0x7f || is_second || (at(i) == 0xC2 && at(i + 1) >= 0x80 && at(i + 1) < 0xA0);
  };
  bool has_control = false;
  for (std::size_t i = 0; i < word.size(); ++i) has_control = has_control || is_control(i);
  std::string quoted = has_control ? "$'" : "'";
  for (std::size_t i = 0; i < word.size(); ++i) {
    const auto byte = static_cast<unsigned char>(word[i]);
    if (is_control(i)) {
      for (const int shift : {6, 3, 0}) quoted += text_of(shift == 6 ? "\\" : "", byte >> shift & 7);
    } else if (has_control) {
      quoted += (word[i] == '\'' || word[i] == '\\' ? "\\" : "") + std::string(1, word[i]);
    } else {
      quoted += word[i] == '\'' ? "'\\''" : std::string(1, word[i]);
    }
  }
  return quoted + "'";
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
    const std::vector<std::string> words(argv + 1, argv + argc);
    std::cerr << shell_text(error, words) << "\n";
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

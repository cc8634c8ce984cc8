#include "tools/command.h"

#include <iostream>

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

int refuse_unknown(const CLI::App& program) {
  const CLI::App& app = asked_for(program);
  const std::string word = unknown_words(program).front();
  const std::string name = word.substr(0, word.find('='));
  const bool is_option = name.starts_with("-");
  const std::string what = is_option ? "option" : &app == &program ? "sub-command" : "argument that is wanted";
  return refuse(program, text_of("'", word, "' is no ", what, did_you_mean(name, known_words(app, is_option))));
}

}  // namespace

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
    return refuse(program, error.what());
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
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

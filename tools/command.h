#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace sectionflow {

/// What main() runs once the command line is read: the exit status.
using RunCommand = std::function<int()>;

// The sub-commands. Each adds itself to the program, and sets `run` when it is the one that is asked for.
void add_plan_command(CLI::App& program, RunCommand& run);
void add_compare_command(CLI::App& program, RunCommand& run);
void add_inspect_command(CLI::App& program, RunCommand& run);
void add_convert_command(CLI::App& program, RunCommand& run);
void add_freeze_command(CLI::App& program, RunCommand& run);
void add_predict_command(CLI::App& program, RunCommand& run);
void add_train_command(CLI::App& program, RunCommand& run);
void add_scale_command(CLI::App& program, RunCommand& run);

/// Reads the command line and runs the sub-command that it names. What is not understood goes to the error stream with
/// the nearest name that there is, and so does an error of ours: exit status 2.
int run_commands(CLI::App& program, const RunCommand& run, int argc, char** argv);

/// What an error says to somebody at a shell: its text without the lines of this program's source, which are where a
/// library's user would look, and with options where it advises calls of the library. What stands between quotes stays
/// as it is, and so do the user's own `words`, in which quotes may be that look as if they ended there.
std::string shell_text(const Error& error, std::span<const std::string> words = {});

/// A word as one writes it at a shell, which takes it back as it is: "'it'\''s here'"; a plain one as it is.
std::string shell_word(const std::string& word);

/// "; did you mean 'plan'?", or nothing where no candidate is near.
std::string did_you_mean(const std::string& word, std::span<const std::string> candidates);
/// "a, b, c"
std::string joined(std::span<const std::string> words);
/// Throws: ArgumentError naming the nearest of `known` and all of them, for a word that is none; `what` begins it,
/// as in "--model: 'resnet5' is no model".
void check_known(const std::string& word, const std::vector<std::string>& known, const std::string& what);

}  // namespace sectionflow

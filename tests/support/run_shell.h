#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <stdexcept>
#include <string>

namespace sectionflow {

/// What a call of a program did.
struct Outcome {
  int status = 0;    ///< -1 where a signal has ended it
  std::string text;  ///< of standard output, and of what the command sends there
};

/// Calls a command of the shell and waits for its end.
inline Outcome run_shell(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  Outcome outcome;
  for (int letter = std::fgetc(pipe); letter != EOF; letter = std::fgetc(pipe)) {
    outcome.text += static_cast<char>(letter);
  }
  const int ended = pclose(pipe);
  outcome.status = WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
  return outcome;
}

}  // namespace sectionflow

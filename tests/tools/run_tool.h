#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace sectionflow::tools {

/// What a call of the program did.
struct Outcome {
  int status = 0;
  std::string text;  ///< of both streams, or, of run_tool_for_json, of standard output
};

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

/// The program, as one calls it.
inline Outcome run_tool(const std::string& arguments) {
  return run_shell(std::string(SF_TOOL) + " " + arguments + " 2>&1");
}

/// Its --json -, which is all of its standard output.
inline nlohmann::json json_of_tool(const std::string& arguments, int status = 0) {
  const Outcome outcome = run_shell(std::string(SF_TOOL) + " " + arguments + " --json - 2>/dev/null");
  if (outcome.status != status) throw std::runtime_error(arguments + ": " + run_tool(arguments).text);
  return nlohmann::json::parse(outcome.text);
}

/// What `inspect` tells of a file or folder.
inline nlohmann::json inspected(const std::filesystem::path& path) {
  return json_of_tool("inspect '" + path.string() + "'");
}

/// Exit status 2, and a text that says why.
inline void expect_refused(const std::string& arguments, const testing::Matcher<std::string>& text) {
  const Outcome outcome = run_tool(arguments);
  EXPECT_EQ(outcome.status, 2) << arguments << "\n" << outcome.text;
  EXPECT_THAT(outcome.text, text) << arguments;
}

}  // namespace sectionflow::tools

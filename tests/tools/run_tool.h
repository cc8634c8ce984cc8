#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "tests/support/run_shell.h"

namespace sectionflow::tools {

/// The program, as one calls it: the text of both streams.
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

#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "tests/support/run_shell.h"

namespace sectionflow {

/// A Python that has the module: SECTIONFLOW_PYTHON, or python3 of the PATH; nothing where neither has it.
inline std::optional<std::string> python_with(const std::string& module) {
  const char* told = std::getenv("SECTIONFLOW_PYTHON");
  for (const std::string& python : {std::string(told != nullptr ? told : ""), std::string("python3")}) {
    if (!python.empty() && std::system(text_of("'", python, "' -c 'import ", module, "' 2>/dev/null").c_str()) == 0) {
      return python;
    }
  }
  return std::nullopt;
}

/// What a program prints when it is run with one argument. Throws: std::runtime_error when it fails.
inline std::string run_python(const std::string& python, const std::filesystem::path& program,
                              const std::filesystem::path& argument) {
  const std::string command = text_of("'", python, "' '", program.string(), "' '", argument.string(), "'");
  const Outcome outcome = run_shell(command);
  if (outcome.status != 0) throw std::runtime_error(command + " failed:\n" + outcome.text);
  return outcome.text;
}

}  // namespace sectionflow

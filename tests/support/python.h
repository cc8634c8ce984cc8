#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "base/error.h"

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
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  std::string output;
  char buffer[4096];
  for (std::size_t count = 0; (count = fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, count);
  if (pclose(pipe) != 0) throw std::runtime_error(command + " failed:\n" + output);
  return output;
}

}  // namespace sectionflow

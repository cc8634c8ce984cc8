#pragma once

#include <iostream>
#include <optional>
#include <string_view>

namespace sectionflow {

/// For a program that takes no arguments: where it has got some, the status with which it is to end. --help is answered
/// by what the program does; anything else is refused.
inline std::optional<int> answer_arguments(int argc, char** argv, std::string_view about) {
  if (argc <= 1) return std::nullopt;
  const std::string_view first = argv[1];
  if (first == "--help" || first == "-h") {
    std::cout << about << "\nUsage: " << argv[0] << "   (it takes no arguments but --help)\n";
    return 0;
  }
  std::cerr << argv[0] << ": unknown argument '" << first << "'; it takes none but --help\n";
  return 2;
}

}  // namespace sectionflow

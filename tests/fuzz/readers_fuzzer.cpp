// One reader under libFuzzer: SECTIONFLOW_FUZZ_READER names it. Seeds are written to the first folder of the command
// line that is empty. An error that is not a DataError, a crash, a leak or a hang ends the run.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/whole_file.h"
#include "tests/fuzz/readers.h"

namespace {

const sectionflow::fuzz::Reader* chosen_reader() {
  const char* name = std::getenv("SECTIONFLOW_FUZZ_READER");
  for (const auto& reader : sectionflow::fuzz::readers()) {
    if (name != nullptr && reader.name == name) return &reader;
  }
  std::fprintf(stderr, "readers_fuzzer: SECTIONFLOW_FUZZ_READER is to be one of");
  for (const auto& reader : sectionflow::fuzz::readers()) std::fprintf(stderr, " %s", reader.name.c_str());
  std::fprintf(stderr, "\n");
  std::exit(2);
}
const sectionflow::fuzz::Reader* const reader = chosen_reader();

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  for (int i = 1; i < *count; ++i) {
    const std::filesystem::path folder = (*arguments)[i];
    if (!std::filesystem::is_directory(folder) || !std::filesystem::is_empty(folder)) continue;
    for (std::size_t seed = 0; seed < reader->seeds.size(); ++seed)
      sectionflow::write_whole_file(folder / ("seed-" + std::to_string(seed)), reader->seeds[seed], "readers_fuzzer");
    break;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t num_bytes) {
  try {
    reader->read(std::string(reinterpret_cast<const char*>(bytes), num_bytes));
  } catch (const sectionflow::DataError&) {
    return 0;
  }
  return 0;
}

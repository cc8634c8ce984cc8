// One reader under libFuzzer: SECTIONFLOW_FUZZ_READER names it. Seeds are written to the first folder of the command
// line that is empty. An error that is not a DataError, a crash, a leak, a hang, and more memory or time than the
// reader may take end the run.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "base/whole_file.h"
#include "tests/fuzz/readers.h"

namespace {

sectionflow::fuzz::Reader chosen_reader() {
  const char* name = std::getenv("SECTIONFLOW_FUZZ_READER");
  try {
    return sectionflow::fuzz::reader_named(name == nullptr ? "" : name);
  } catch (const std::out_of_range&) {
    std::fprintf(stderr, "readers_fuzzer: SECTIONFLOW_FUZZ_READER is to be one of");
    for (const std::string& known : sectionflow::fuzz::reader_names()) std::fprintf(stderr, " %s", known.c_str());
    std::fprintf(stderr, "\n");
    std::exit(2);
  }
}

/// Made when it is asked for first: other static objects are there by then.
const sectionflow::fuzz::Reader& reader() {
  static const sectionflow::fuzz::Reader chosen = chosen_reader();
  return chosen;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  // What libraries keep for good is there before anything is counted.
  for (const std::string& seed : reader().seeds) reader().read(seed);
  for (int i = 1; i < *count; ++i) {
    const std::filesystem::path folder = (*arguments)[i];
    if (!std::filesystem::is_directory(folder) || !std::filesystem::is_empty(folder)) continue;
    for (std::size_t seed = 0; seed < reader().seeds.size(); ++seed)
      sectionflow::write_whole_file(folder / ("seed-" + std::to_string(seed)), reader().seeds[seed], "readers_fuzzer");
    break;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t num_bytes) {
  (void)is_refused(reader(), std::string(reinterpret_cast<const char*>(bytes), num_bytes));
  return 0;
}

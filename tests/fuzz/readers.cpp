#include "tests/fuzz/readers.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <stdexcept>

#include "base/error.h"
#include "tests/fuzz/heap_peak.h"

namespace sectionflow::fuzz {
namespace {

/// Of the processor: a machine that does other work too takes no longer by it.
double seconds_now() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

const std::vector<std::string>& reader_names() {
  static const std::vector<std::string> names = {
#define SF_READER(name) #name,
#include "tests/fuzz/reader_names.inc"
#undef SF_READER
  };
  return names;
}

Reader reader_named(const std::string& name) {
  static const std::map<std::string, Reader (*)()> makers = {
#define SF_READER(name) {#name, name##_reader},
#include "tests/fuzz/reader_names.inc"
#undef SF_READER
  };
  return makers.at(name)();
}

bool is_refused(const Reader& reader, const std::string& bytes) {
  constexpr double kMostSeconds = 1;
  const double begin = seconds_now();
  begin_heap_peak();
  bool is_refused = false;
  try {
    reader.read(bytes);
  } catch (const DataError&) {
    is_refused = true;
  }
  const std::size_t peak = heap_peak_bytes(), most = bytes.size() * reader.memory_per_byte + reader.other_memory;
  const double seconds = seconds_now() - begin;
  if (peak > most)
    throw std::runtime_error(
        text_of(reader.name, " took ", peak, " bytes of memory to read ", bytes.size(), "; it may take ", most));
  if (seconds > kMostSeconds)
    throw std::runtime_error(text_of(reader.name, " took ", seconds, " s to read ", bytes.size(), " bytes"));
  return is_refused;
}

}  // namespace sectionflow::fuzz

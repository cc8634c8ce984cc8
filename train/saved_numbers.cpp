#include "train/saved_numbers.h"

#include <glog/logging.h>

#include <bit>
#include <charconv>
#include <system_error>

#include "base/error.h"

namespace sectionflow {
namespace {

constexpr std::size_t kDigits = 16;
/// Begins what is no digit.
constexpr char kWatched = '|';

}  // namespace

std::string saved_numbers(const std::vector<double>& numbers) {
  std::string text;
  for (double number : numbers) {
    char digits[kDigits];
    const auto end = std::to_chars(digits, digits + kDigits, std::bit_cast<std::uint64_t>(number), 16).ptr;
    text.append(kDigits - static_cast<std::size_t>(end - digits), '0').append(digits, end);
  }
  return text;
}

std::vector<double> read_numbers(const std::string& text, std::size_t count, const char* who) {
  const bool is_whole = text.size() % kDigits == 0 && (count == kAnyCount || text.size() / kDigits == count);
  std::vector<double> numbers;
  for (std::size_t i = 0; is_whole && i < text.size(); i += kDigits) {
    std::uint64_t bits = 0;
    const auto read = std::from_chars(text.data() + i, text.data() + i + kDigits, bits, 16);
    if (read.ec != std::errc() || read.ptr != text.data() + i + kDigits) break;
    numbers.push_back(std::bit_cast<double>(bits));
  }
  SF_CHECK_CODE(is_whole && numbers.size() == text.size() / kDigits, DataError, ErrorCode::training_position, who,
                ": what it is to go on from is not what it has saved",
                hint("give positions to trainings with the same callbacks"));
  return numbers;
}

std::string watched_text(const std::string& monitor, bool higher_is_better) {
  return std::string(1, kWatched) + (higher_is_better ? "the largest '" : "the smallest '") + monitor + "'";
}

std::optional<std::string> take_watched(std::string& saved) {
  const std::size_t begin = saved.find(kWatched);
  if (begin == std::string::npos) return std::nullopt;
  std::string watched = saved.substr(begin);
  saved.resize(begin);
  return watched;
}

void warn_of_watched(const char* who, const std::string& then, const std::string& now) {
  LOG(WARNING) << who << ": what the training goes on from has watched for " << then.substr(1)
               << ", which says nothing of " << now.substr(1) << ": it begins anew";
}

std::int64_t count_from(double number) {
  return number >= 0 && number < 0x1p53 ? static_cast<std::int64_t>(number) : 0;
}

}  // namespace sectionflow

#include "device/algorithm_choices.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/whole_file.h"

namespace sectionflow {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "sectionflow algorithms";
constexpr int kVersion = 1;
/// No program has so many problems, and nobody describes one at such length: what lies beyond is a damaged file.
constexpr std::size_t kMostChoices = 100'000, kMostLetters = 1024, kMostBytes = 100'000'000;

/// Texts are shown in logs and compared byte for byte: printable ASCII, something, not too much.
bool is_plain(const std::string& text) {
  return !text.empty() && text.size() <= kMostLetters &&
         std::all_of(text.begin(), text.end(), [](char letter) { return letter >= ' ' && letter <= '~'; });
}

AlgorithmChoices choices_of(const Json& json, const std::string& where) {
  SF_CHECK(json.is_object() && json.value("format", Json()) == kFormat, DataError, where, "these are no choices",
           hint("write them with AlgorithmChoices::save"));
  SF_CHECK(json.value("version", Json()) == kVersion, DataError, where, "the choices have version ",
           json.value("version", Json()).dump(-1, ' ', true, Json::error_handler_t::replace), "; wanted ", kVersion,
           hint("let them be made again, by leaving them out"));
  const Json algorithms = json.value("algorithms", Json());
  SF_CHECK(algorithms.is_object() && algorithms.size() <= kMostChoices, DataError, where,
           "'algorithms' is no object of at most ", kMostChoices, " problems");
  AlgorithmChoices choices;
  std::size_t number = 0;
  for (const auto& [problem, algorithm] : algorithms.items()) {
    SF_CHECK(is_plain(problem) && algorithm.is_string() && is_plain(algorithm.get_ref<const std::string&>()), DataError,
             where, "problem ", number, " of 'algorithms' or its algorithm is no text of 1 to ", kMostLetters,
             " printable letters");
    choices.algorithms[problem] = algorithm.get<std::string>();
    ++number;
  }
  return choices;
}

}  // namespace

AlgorithmChoices AlgorithmChoices::load(const std::string& path, Where where) {
  return call_at(where, [&] {
    return from_json(read_whole_file(path, kMostBytes, "choices of algorithms"),
                     text_of("choices of algorithms: '", path, "': "));
  });
}

void AlgorithmChoices::save(const std::string& path, Where where) const {
  call_at(where, [&] { write_whole_file(path, json(), "choices of algorithms"); });
}

std::string AlgorithmChoices::json() const {
  const Json json = {{"format", kFormat}, {"version", kVersion}, {"algorithms", algorithms}};
  return json.dump(1, ' ', true, Json::error_handler_t::replace) + '\n';
}

AlgorithmChoices AlgorithmChoices::from_json(const std::string& text, const std::string& where) {
  // Nesting is bounded, so that a hostile text cannot exhaust the stack.
  const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= 2; };
  const Json json = Json::parse(text, shallow, false);
  SF_CHECK(!json.is_discarded(), DataError, where, "this is no JSON");
  return choices_of(json, where);
}

}  // namespace sectionflow

#include "fit/plan_file.h"

#include <algorithm>
#include <array>
#include <climits>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/utf8.h"
#include "base/whole_file.h"
#include "data/tensor_hashes.h"
#include "fit/plan_content.h"

namespace sectionflow {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kFormat = "sectionflow-plan";
constexpr int kVersion = 1;
constexpr std::size_t kMostBytes = 64'000'000, kMostText = 1'000'000;
constexpr int kMostDepth = 6;

// The end of a file: what stands before it has the hash.
constexpr std::string_view kBeforeHash = ",\n \"xxh3\": \"";
constexpr std::string_view kBehindHash = "\"\n}\n";
constexpr std::size_t kHashDigits = 16;

struct KindName {
  StepKind kind;
  const char* name;
};
constexpr std::array kKinds = {KindName{StepKind::hold, "hold"}, KindName{StepKind::copy_out, "copy_out"},
                               KindName{StepKind::disk_write, "disk_write"}, KindName{StepKind::disk_read, "disk_read"},
                               KindName{StepKind::copy_in, "copy_in"}};

/// One of the program is [place, pass, replay], with [part, parts] where its node runs in several, any other [kind,
/// value, offload, pass].
ordered_json json_of(const PlannedInstruction& instruction) {
  if (instruction.written >= 0 && instruction.parts > 1) {
    return {instruction.written, instruction.pass, instruction.replay ? 1 : 0, instruction.part, instruction.parts};
  }
  if (instruction.written >= 0) return {instruction.written, instruction.pass, instruction.replay ? 1 : 0};
  const auto kind = std::ranges::find(kKinds, instruction.kind, &KindName::kind);
  SF_CHECK(kind != kKinds.end(), InternalError, "save_plan: an instruction is neither the program's nor a copy");
  return {kind->name, instruction.value, instruction.offload, instruction.pass};
}

ordered_json json_of(const ProgramPlan& program) {
  ordered_json instructions = ordered_json::array();
  for (const PlannedInstruction& instruction : program.instructions) instructions.push_back(json_of(instruction));
  return {{"fingerprint", program.facts.fingerprint},
          {"fetches", program.facts.fetches},
          {"updates", program.facts.updates},
          {"feeds", program.facts.feeds},
          {"nodes", program.facts.nodes},
          {"operations", program.facts.operations},
          {"peaks", {program.device_peak, program.host_peak, program.disk_peak}},
          {"notes", program.notes},
          {"half", program.half},
          {"instructions", std::move(instructions)}};
}

/// Reads what somebody else wrote; what is asked of it is there, or it throws.
class PlanReader {
 public:
  explicit PlanReader(const std::string& where) : where_(where) {}

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw DataError(error_text_of(where_, parts..., hint("plan it anew and save that plan (save_plan)")),
                    ErrorCode::plan_file);
  }

  PlanContent content(const std::string& text) const {
    const json top = checked(text);
    PlanContent content;
    content.device = text_in(top, "device");
    const json& budgets = list_in(top, "budgets", 3);
    content.budgets = {bytes(budgets[0]), bytes(budgets[1]), bytes(budgets[2])};
    content.profile = text_in(top, "profile");
    const json& model = list_in(top, "model", 3);
    content.model = {integer(model[0], 0, INT64_MAX), integer(model[1], 0, INT64_MAX), plain(model[2])};
    for (const json& program : list_in(top, "programs")) content.programs.push_back(program_of(program));
    return content;
  }

 private:
  /// The JSON of a text that has its hash, of this format and version.
  json checked(const std::string& text) const {
    const std::size_t end_bytes = kBeforeHash.size() + kHashDigits + kBehindHash.size();
    if (text.size() < end_bytes) refuse("is no plan, or cut off: it has ", text.size(), " bytes");
    const std::string_view body = std::string_view(text).substr(0, text.size() - end_bytes);
    const std::string_view end = std::string_view(text).substr(body.size());
    const bool has_end = end.starts_with(kBeforeHash) && end.ends_with(kBehindHash);
    if (!has_end || end.substr(kBeforeHash.size(), kHashDigits) != text_hash(body))
      refuse("is no plan, or damaged: it does not have the hash that is saved with a plan");
    // Nesting is bounded, so that a hostile text cannot exhaust the stack.
    bool is_deep = false;
    const auto shallow = [&](int depth, json::parse_event_t, json&) {
      is_deep = is_deep || depth > kMostDepth;
      return !is_deep;
    };
    json top = json::parse(text, shallow, false);
    if (is_deep || !top.is_object() || top.value("format", json()) != kFormat) refuse("is no plan");
    const std::int64_t version = integer(member(top, "version"), 0, INT_MAX);
    if (version != kVersion) {
      refuse("has version ", version, "; this SectionFlow reads version ", kVersion,
             version > kVersion ? "; try a newer one" : "");
    }
    return top;
  }

  const json& member(const json& object, const char* name) const {
    if (!object.is_object() || !object.contains(name)) refuse("lacks '", name, "'");
    return *object.find(name);
  }
  /// An array; of `size` elements where that is said.
  const json& list_in(const json& object, const char* name, std::size_t size = 0) const {
    const json& list = member(object, name);
    if (!list.is_array() || (size > 0 && list.size() != size))
      refuse("'", name, "' is ", list.is_array() ? text_of("a list of ", list.size()) : list.type_name(),
             "; wanted a list", size > 0 ? text_of(" of ", size) : "");
    return list;
  }
  std::int64_t integer(const json& value, std::int64_t least, std::int64_t most) const {
    const bool is_huge = value.is_number_unsigned() && !std::in_range<std::int64_t>(value.get<std::uint64_t>());
    if (!value.is_number_integer() || is_huge || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
      refuse("has ", shown(value), " where a whole number from ", least, " to ", most, " was wanted");
    return value.get<std::int64_t>();
  }
  int small(const json& value, int least = 0) const { return static_cast<int>(integer(value, least, INT_MAX)); }
  std::size_t bytes(const json& value) const { return static_cast<std::size_t>(integer(value, 0, INT64_MAX)); }
  static std::string shown(const json& value) { return value.is_number() ? value.dump() : value.type_name(); }
  /// Texts are shown to people.
  std::string plain(const json& value) const {
    if (!value.is_string() || value.get_ref<const std::string&>().size() > kMostText ||
        plain_text(value.get_ref<const std::string&>()) != value.get_ref<const std::string&>()) {
      refuse("has ", value.type_name(), " where a text of one line and at most ", kMostText, " bytes was wanted");
    }
    return value.get<std::string>();
  }
  std::string text_in(const json& object, const char* name) const { return plain(member(object, name)); }
  std::vector<std::string> texts_in(const json& object, const char* name) const {
    std::vector<std::string> texts;
    for (const json& text : list_in(object, name)) texts.push_back(plain(text));
    return texts;
  }

  ProgramPlan program_of(const json& value) const {
    ProgramPlan program;
    program.facts.fingerprint = text_in(value, "fingerprint");
    program.facts.fetches = texts_in(value, "fetches");
    program.facts.updates = small(member(value, "updates"));
    if (!member(value, "feeds").is_object()) refuse("'feeds' is ", member(value, "feeds").type_name());
    for (const auto& [name, type] : member(value, "feeds").items()) program.facts.feeds[plain(name)] = plain(type);
    program.facts.nodes = small(member(value, "nodes"));
    program.facts.operations = text_in(value, "operations");
    const json& peaks = list_in(value, "peaks", 3);
    program.device_peak = bytes(peaks[0]);
    program.host_peak = bytes(peaks[1]);
    program.disk_peak = bytes(peaks[2]);
    program.notes = texts_in(value, "notes");
    program.half = small(member(value, "half"));
    const json& instructions = list_in(value, "instructions");
    program.instructions.reserve(instructions.size());
    for (const json& instruction : instructions) program.instructions.push_back(instruction_of(instruction));
    return program;
  }

  PlannedInstruction instruction_of(const json& value) const {
    if (!value.is_array() || value.size() < 3 || value.size() > 5)
      refuse("has ", value.type_name(), " in place of an instruction");
    if (value.size() != 4) {
      PlannedInstruction planned{
          .written = small(value[0]), .pass = small(value[1]), .replay = integer(value[2], 0, 1) == 1};
      if (value.size() == 3) return planned;
      planned.part = small(value[3]);
      planned.parts = small(value[4], 2);
      return planned;
    }
    const auto kind = std::ranges::find_if(kKinds, [&](const KindName& known) { return value[0] == known.name; });
    if (kind == kKinds.end()) refuse("has an instruction of an unknown kind");
    return {.kind = kind->kind, .value = small(value[1]), .offload = small(value[2], -1), .pass = small(value[3])};
  }

  const std::string& where_;
};

}  // namespace

std::string plain_text(const std::string& text) {
  std::string plain = valid_utf8(text);
  std::replace_if(
      plain.begin(), plain.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return plain;
}

ModelFacts ModelFacts::of(const Graph& graph) {
  ModelFacts facts;
  std::string types;
  for (const Value& variable : graph.values(kTrainableVariables)) {
    ++facts.variables;
    facts.bytes += static_cast<std::int64_t>(variable.type().bytes());
    types += variable.type().text() + "\n";
  }
  facts.types = text_hash(types);
  return facts;
}

std::string ModelFacts::text() const {
  return text_of(variables, " trained variables of ", bytes_text(static_cast<std::size_t>(bytes)));
}

const ProgramPlan* PlanContent::find(const std::string& fingerprint) const {
  const auto found = std::ranges::find_if(
      programs, [&](const ProgramPlan& program) { return program.facts.fingerprint == fingerprint; });
  return found == programs.end() ? nullptr : &*found;
}

void PlanContent::put(ProgramPlan program) {
  const auto same = std::ranges::find_if(
      programs, [&](const ProgramPlan& known) { return known.facts.fingerprint == program.facts.fingerprint; });
  if (same == programs.end()) {
    programs.push_back(std::move(program));
  } else {
    *same = std::move(program);
  }
}

namespace {

/// Of what is no limit any more, as much as a reader takes.
std::size_t whole(std::size_t bytes) {
  return std::min<std::size_t>(bytes, std::numeric_limits<std::int64_t>::max());
}

}  // namespace

/// A line for each member and each program.
std::string PlanContent::text() const {
  const ordered_json members = {
      {"format", kFormat},  {"version", kVersion},
      {"device", device},   {"budgets", {whole(budgets.device), whole(budgets.host), whole(budgets.disk)}},
      {"profile", profile}, {"model", {model.variables, model.bytes, model.types}}};
  std::string text = "{\n";
  for (const auto& [name, value] : members.items()) text += " \"" + name + "\": " + value.dump() + ",\n";
  text += " \"programs\": [";
  for (std::size_t i = 0; i < programs.size(); ++i) text += (i > 0 ? ",\n  " : "\n  ") + json_of(programs[i]).dump();
  text += "\n ]";
  const std::string hash = text_hash(text);
  return text.append(kBeforeHash).append(hash).append(kBehindHash);
}

int FitPlan::num_programs() const {
  return empty() ? 0 : static_cast<int>(content_->programs.size());
}

std::string FitPlan::text() const {
  return empty() ? std::string() : content_->text();
}

FitPlan FitPlan::from_text(const std::string& text, const std::string& where) {
  if (text.empty()) return {};
  return FitPlan(std::make_shared<const PlanContent>(PlanReader(where).content(text)));
}

FitPlan load_plan(const std::string& path, Where where) {
  return call_at(where, [&] {
    const std::string text = read_whole_file(path, kMostBytes, "load_plan");
    const std::string begin = text_of("plan '", path, "': ");
    if (text.empty()) PlanReader(begin).refuse("is empty");
    return FitPlan::from_text(text, begin);
  });
}

}  // namespace sectionflow

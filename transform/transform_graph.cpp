#include "transform/transform_graph.h"

#include <cctype>
#include <charconv>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/nearest.h"
#include "transform/graph_copy.h"
#include "transform/transform.h"

namespace sectionflow {

#define SF_TRANSFORM(name) Transform name##_transform();
#include "transform/transform_list.inc"
#undef SF_TRANSFORM

namespace {

/// Limits of a text, so that one from anybody costs little.
constexpr std::size_t kMostTextBytes = 1 << 16, kMostTransforms = 256;

const std::map<std::string, Transform>& transforms() {
  static const std::map<std::string, Transform> all = {
#define SF_TRANSFORM(name) {#name, name##_transform()},
#include "transform/transform_list.inc"
#undef SF_TRANSFORM
  };
  return all;
}

/// Reads a text of transforms, from its beginning to its end.
class TransformText {
 public:
  explicit TransformText(std::string_view text) : text_(text) {
    SF_CHECK(text.size() <= kMostTextBytes, ArgumentError, "transform_graph: the text of transforms has ", text.size(),
             " bytes; wanted at most ", kMostTextBytes);
  }

  std::vector<TransformCall> calls() {
    std::vector<TransformCall> calls;
    for (skip_blanks(); at_ < text_.size(); skip_blanks()) {
      if (calls.size() == kMostTransforms) refuse(text_of("there are more than ", kMostTransforms, " transforms"));
      calls.push_back(call());
    }
    return calls;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw ArgumentError(text_of("transform_graph: at byte ", at_, " of the text of transforms: ", why));
  }
  [[noreturn]] void refuse_name(const char* what, const std::string& name, const std::vector<std::string>& known) {
    std::string list;
    for (const std::string& each : known) list += (list.empty() ? "" : ", ") + each;
    const auto nearest = nearest_spelling(name, known);
    at_ -= name.size();
    refuse(text_of("'", name, "' is no ", what, nearest ? text_of("; did you mean '", *nearest, "'?") : ".", " There ",
                   known.size() == 1 ? "is " : "are ", list.empty() ? "none" : list));
  }

  bool is_at(char letter) const { return at_ < text_.size() && text_[at_] == letter; }
  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  std::string word(const char* what) {
    const std::size_t begin = at_;
    const auto is_of_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
    while (at_ < text_.size() && is_of_word(text_[at_])) ++at_;
    if (at_ == begin) {
      const std::string found = at_ == text_.size() ? std::string("nothing more") : text_of("'", text_[at_], "'");
      refuse(text_of("wanted the name of ", what, ", there is ", found));
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  TransformCall call() {
    TransformCall call{.name = word("a transform"), .transform = {}, .arguments = {}};
    const auto found = transforms().find(call.name);
    if (found == transforms().end()) refuse_name("transform", call.name, transform_names());
    call.transform = found->second;
    if (is_at('(')) read_arguments(call);
    for (const TransformParameter& parameter : call.transform.parameters) {
      if (parameter.is_needed && !call.arguments.has(parameter.name)) {
        refuse(text_of(call.name, " wants an argument, as in ", call.name, "(", parameter.name, "=...)"));
      }
    }
    if (call.transform.check) call.transform.check(call.arguments);
    return call;
  }

  void read_arguments(TransformCall& call) {
    ++at_;
    for (skip_blanks(); !is_at(')'); skip_blanks()) {
      if (at_ == text_.size()) refuse(text_of("the arguments of ", call.name, " have no end; wanted ')'"));
      if (is_at(',')) {
        ++at_;
        continue;
      }
      read_argument(call);
    }
    ++at_;
  }

  void read_argument(TransformCall& call) {
    const std::string name = word("an argument");
    const TransformParameter* parameter = nullptr;
    std::vector<std::string> known;
    for (const TransformParameter& each : call.transform.parameters) {
      known.push_back(each.name);
      if (each.name == name) parameter = &each;
    }
    if (parameter == nullptr) refuse_name(("argument of " + call.name).c_str(), name, known);
    if (call.arguments.has(name) && !parameter->may_repeat) refuse(text_of("'", name, "' is given twice"));
    skip_blanks();
    if (!is_at('=')) refuse(text_of("wanted '=' and a value behind '", name, "'"));
    ++at_;
    skip_blanks();
    const std::string value = this->value();
    if (parameter->kind == TransformParameter::Kind::number) check_number(name, value);
    call.arguments.add(name, value);
  }

  void check_number(const std::string& name, const std::string& value) const {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error == std::errc() && end == value.data() + value.size() && number >= 0) return;
    refuse(text_of("'", name, "' is '", value, "'; wanted a whole number from 0 on"));
  }

  std::string value() {
    const std::size_t begin = at_ + (is_at('"') ? 1 : 0);
    if (is_at('"')) {
      const std::size_t end = text_.find('"', begin);
      if (end == std::string_view::npos) refuse("a value has no end; wanted '\"'");
      at_ = end + 1;
      return std::string(text_.substr(begin, end - begin));
    }
    const auto ends = [](char c) { return c == ',' || c == ')' || std::isspace(static_cast<unsigned char>(c)) != 0; };
    while (at_ < text_.size() && !ends(text_[at_])) ++at_;
    if (at_ == begin) refuse("wanted a value");
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

void check(const TransformedGraph& given, const Transform& transform) {
  if (!transform.checks_needed_alone) return check_is_for_inference(given.graph, nullptr, "transform_graph");
  const std::vector<bool> needed = needed_nodes(given.graph, given.outputs);
  check_is_for_inference(given.graph, &needed, "transform_graph");
}

InferenceGraph transformed(const TransformedGraph& first, std::string_view transforms) {
  check_outputs(first.graph, first.outputs, "transform_graph");
  (void)values_of_ranges(first.graph, first.ranges, "transform_graph");
  const std::vector<TransformCall> calls = parse_transforms(transforms);
  if (calls.empty()) {
    check_is_for_inference(first.graph, nullptr, "transform_graph");
    GraphCopy copy(first);
    copy.copy_all({});
    return copy.finish(first.outputs);
  }
  InferenceGraph result;
  for (const TransformCall& call : calls) {
    const TransformedGraph given =
        result.graph ? TransformedGraph{*result.graph, result.outputs, result.ranges} : first;
    check(given, call.transform);
    result = call.transform.apply(given, call.arguments);
  }
  return result;
}

}  // namespace

std::vector<std::string> TransformArguments::texts(const std::string& name) const {
  const auto found = values_.find(name);
  return found != values_.end() ? found->second : std::vector<std::string>();
}

std::int64_t TransformArguments::number(const std::string& name, std::int64_t otherwise) const {
  const auto found = values_.find(name);
  return found != values_.end() ? std::stoll(found->second.front()) : otherwise;
}

std::vector<TransformCall> parse_transforms(std::string_view text) {
  return TransformText(text).calls();
}

std::vector<std::string> transform_names() {
  std::vector<std::string> names;
  for (const auto& [name, transform] : transforms()) names.push_back(name);
  return names;
}

InferenceGraph transform_graph(const Graph& graph, const std::vector<Value>& outputs, std::string_view transforms,
                               Where where) {
  const ValueRanges unknown;
  return call_at(where, [&] { return transformed({graph, outputs, unknown}, transforms); });
}

InferenceGraph transform_graph(const InferenceGraph& graph, std::string_view transforms, Where where) {
  return call_at(where, [&] {
    SF_CHECK(graph.graph != nullptr, ArgumentError, "transform_graph: the graph is none; wanted what freeze gives");
    return transformed({*graph.graph, graph.outputs, graph.ranges}, transforms);
  });
}

}  // namespace sectionflow

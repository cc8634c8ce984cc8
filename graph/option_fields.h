#pragma once

#include <any>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "graph/op_def.h"
#include "graph/value.h"

namespace SF_API sectionflow {

class JsonItem;
struct JsonMembers;

// Options as named fields of a file. A family says once what its options hold, and both ways follow:
//
//   struct ResizeOptions { std::int64_t height = 0; Method method = Method::nearest; };
//
//   registry.add({.name = "resize", .options = described_by<ResizeOptions>([](auto& fields, auto& options) {
//                   fields("height", options.height);
//                   fields.choice("method", options.method, {{Method::nearest, "nearest"}, {Method::linear,
//                   "linear"}});
//                 }), ...});
//
// Fields are bool, int, std::int64_t, std::uint32_t, float, double, std::string, Dtype, Shape, TensorType, a vector of
// bool, int, std::int64_t or TensorType, std::optional<float>, or a shared HostTensor; choices of an enumeration;
// operations.

/// An enumeration's values and their names.
template <class Enum>
using Choices = std::initializer_list<std::pair<Enum, const char*>>;

/// An operation that is made after the node whose options name it.
struct LaterOperation {
  std::shared_ptr<Operation> operation;
  NodeId node = 0;
  std::string path;  ///< of the field, for errors
};

/// Writes options, field by field. Numbers keep their bits.
class OptionWriter {
 public:
  /// `writes_usual`: choices that are not written to files as the first of theirs, too.
  explicit OptionWriter(JsonMembers& object, bool writes_usual = false)
      : object_(object), writes_usual_(writes_usual) {}

  template <class Field>
  void operator()(const char* name, const Field& field);
  template <class Enum>
  void choice(const char* name, const Enum& field, Choices<std::type_identity_t<Enum>> choices) {
    for (const auto& each : choices) {
      if (each.first == field) return (*this)(name, std::string(each.second));
    }
    throw InternalError(text_of("the field '", name, "' has a value without a name"));
  }
  /// A choice that files had not always: the first of the choices is not written, and read where there is no field.
  template <class Enum>
  void usual_choice(const char* name, const Enum& field, Choices<std::type_identity_t<Enum>> choices) {
    if (writes_usual_ || field != choices.begin()->first) choice(name, field, choices);
  }
  /// A field that files had not always: as it usually is, Field{}, it is not written, and read where there is none.
  template <class Field>
  void usual(const char* name, const Field& field) {
    if (field != Field{}) (*this)(name, field);
  }
  void operation(const char* name, const std::shared_ptr<Operation>& field);

 private:
  JsonMembers& object_;
  bool writes_usual_;
};

/// Reads options, field by field. Throws, at every call: DataError for a field that is absent or of another kind.
class OptionReader {
 public:
  /// `later`: to be filled with what cannot be found before all nodes are there.
  OptionReader(const JsonItem& object, std::vector<LaterOperation>& later) : object_(object), later_(later) {}

  template <class Field>
  void operator()(const char* name, Field& field);
  template <class Enum>
  void choice(const char* name, Enum& field, Choices<std::type_identity_t<Enum>> choices) {
    std::vector<std::string> names;
    for (const auto& each : choices) names.emplace_back(each.second);
    field = (choices.begin() + chosen(name, names))->first;
  }
  template <class Enum>
  void usual_choice(const char* name, Enum& field, Choices<std::type_identity_t<Enum>> choices) {
    field = choices.begin()->first;
    if (has(name)) choice(name, field, choices);
  }
  template <class Field>
  void usual(const char* name, Field& field) {
    field = Field{};
    if (has(name)) (*this)(name, field);
  }
  void operation(const char* name, std::shared_ptr<Operation>& field);

  /// Throws: DataError for a field that nobody has asked for.
  void check_all_read() const;

 private:
  bool has(const char* name) const;
  JsonItem field_called(const char* name);
  std::ptrdiff_t chosen(const char* name, const std::vector<std::string>& names);

  const JsonItem& object_;
  std::vector<LaterOperation>& later_;
  std::vector<std::string> read_;
};

/// Looks for enumerations that hold none of their values, as a number that was cast to one may, before anything goes by
/// them. Throws: ArgumentError (starting with the label).
class OptionChecker {
 public:
  explicit OptionChecker(const std::string& label) : label_(label) {}

  /// Fields of other types hold what their type allows.
  template <class Field>
  void operator()(const char*, const Field&) {}
  void operator()(const char* name, const Dtype& field) { check_dtype(name, field); }
  void operator()(const char* name, const TensorType& field) { check_dtype(name, field.dtype); }
  template <class Enum>
  void choice(const char* name, const Enum& field, Choices<std::type_identity_t<Enum>> choices) {
    for (const auto& each : choices) {
      if (each.first == field) return;
    }
    std::vector<std::string> names;
    for (const auto& each : choices) names.emplace_back(each.second);
    refuse(name, static_cast<long long>(field), names);
  }
  template <class Enum>
  void usual_choice(const char* name, const Enum& field, Choices<std::type_identity_t<Enum>> choices) {
    choice(name, field, choices);
  }
  template <class Field>
  void usual(const char* name, const Field& field) {
    (*this)(name, field);
  }
  void operation(const char*, const std::shared_ptr<Operation>&) {}

 private:
  void check_dtype(const char* name, Dtype dtype) const;
  [[noreturn]] void refuse(const char* name, long long number, const std::vector<std::string>& names) const;

  const std::string& label_;
};

/// The description of options of type `Options` by `describe(fields, options)`, which names each field.
template <class Options, class Describe>
OptionsDescription described_by(Describe describe) {
  return {.type = &typeid(Options),
          .write = [describe](const std::any& options,
                              OptionWriter& fields) { describe(fields, std::any_cast<const Options&>(options)); },
          .read = [describe](OptionReader& fields) -> std::any {
            Options options{};
            describe(fields, options);
            return options;
          },
          .defaults = []() -> std::any { return Options{}; },
          .check =
              [describe](const std::any& options, const std::string& label) {
                OptionChecker fields(label);
                describe(fields, std::any_cast<const Options&>(options));
              }};
}

}  // namespace sectionflow

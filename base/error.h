#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/error_code.h"
#include "base/export.h"

namespace SF_API sectionflow {

/// A line of source, for error texts. As the default of a last parameter, `Where where = Where::here()`, it is the line
/// of the call. Where the standard library makes the call, as std::make_unique and std::optional::emplace do for a
/// constructor, that line is nobody's: it counts as not known. Give Where::here() yourself there.
struct Where {
  const char* file = nullptr;
  int line = 0;

  static constexpr Where here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
  bool known() const;
  /// "model.cpp:84", without folders; empty where it is not known.
  std::string text() const;
};

/// All parts streamed into one string. Throws: std::bad_alloc; a text is whole or it is not there.
template <class... Parts>
std::string text_of(const Parts&... parts) {
  std::ostringstream stream;
  // Without this a stream that runs out of memory would give a cut text.
  stream.exceptions(std::ios::badbit);
  (stream << ... << parts);
  return stream.str();
}

/// A line below an error's text: "  where:   model.cpp:84".
struct Fact {
  std::string name;
  std::string text;
};

/// The line "hint": what to do about it.
template <class... Parts>
Fact hint(const Parts&... parts) {
  return {"hint", text_of(parts...)};
}
/// The line "earlier": the other place that an error is about, which came first.
template <class... Parts>
Fact earlier(const Parts&... parts) {
  return {"earlier", text_of(parts...)};
}

/// What an error says: one sentence, and facts.
struct ErrorText {
  ErrorText(std::string sentence) : message(std::move(sentence)) {}  // NOLINT: meant to convert
  ErrorText(const char* sentence) : message(sentence) {}             // NOLINT
  std::string message;
  std::vector<Fact> facts{};
};

/// Streams a part of error_text_of into the sentence.
template <class Part>
void add_part(std::ostream& message, std::vector<Fact>&, const Part& part) {
  message << part;
}
/// Puts a fact among the facts instead.
inline void add_part(std::ostream&, std::vector<Fact>& facts, const Fact& fact) {
  facts.push_back(fact);
}

/// The parts streamed into the sentence, but that facts among them become facts.
template <class... Parts>
ErrorText error_text_of(const Parts&... parts) {
  std::ostringstream message;
  message.exceptions(std::ios::badbit);
  std::vector<Fact> facts;
  (add_part(message, facts, parts), ...);
  ErrorText text(message.str());
  text.facts = std::move(facts);
  return text;
}

/// Base of every error that SectionFlow throws. what() is
///
///   SF-E020 ShapeError: matmul 'head/fc1': inner dimensions 3136 and 3072 differ
///     where:   section 3 'head', model.cpp:84
///     inputs:  'flatten' f32[250,3136] (section 2), 'head/fc1/w' f32[3072,512] (variable)
///     hint:    ...
///
/// and code(), message() and fact() give the same piece by piece. docs/errors.md lists the codes. When the host's
/// memory is exhausted std::bad_alloc is thrown, not an Error, whose text would need memory itself.
class Error : public std::runtime_error {
 public:
  Error(ErrorText text, ErrorCode code, const char* type);
  const char* what() const noexcept override { return text_.c_str(); }

  ErrorCode code() const { return code_; }
  /// "ShapeError"
  const char* type() const { return type_; }
  /// The sentence, without code and facts.
  const std::string& message() const { return message_; }
  /// The fact of that name; empty when there is none.
  std::string fact(std::string_view name) const;
  /// Adds a fact unless it is empty or there is one of that name: what is known first is nearest to the cause.
  void add_fact(std::string_view name, std::string_view fact);

 private:
  ErrorCode code_;
  const char* type_;
  std::string message_;
  std::vector<Fact> facts_;
  std::string text_;
};

/// "SF-E020"
std::string code_text(ErrorCode code);

/// Shapes that do not fit an operation or a feed.
class ShapeError : public Error {
 public:
  explicit ShapeError(ErrorText text, ErrorCode code = ErrorCode::shape) : Error(std::move(text), code, "ShapeError") {}
};

/// A call with arguments, or at a time, that it cannot accept.
class ArgumentError : public Error {
 public:
  explicit ArgumentError(ErrorText text, ErrorCode code = ErrorCode::argument)
      : Error(std::move(text), code, "ArgumentError") {}
};

/// A plan that does not fit its memory budget. Nothing has run when it is thrown.
class BudgetError : public Error {
 public:
  BudgetError(ErrorText text, std::size_t budget, std::size_t minimum, ErrorCode code = ErrorCode::budget)
      : Error(std::move(text), code, "BudgetError"), budget_bytes(budget), minimum_bytes(minimum) {}
  std::size_t budget_bytes;   ///< what was given
  std::size_t minimum_bytes;  ///< the smallest under which the same call runs; a text of "at least": or more
};

/// Files and data sets: missing, damaged, of another format, not writable.
class DataError : public Error {
 public:
  explicit DataError(ErrorText text, ErrorCode code = ErrorCode::data) : Error(std::move(text), code, "DataError") {}
};

/// The machine: a device that is absent or that refuses.
class DeviceError : public Error {
 public:
  explicit DeviceError(ErrorText text, ErrorCode code = ErrorCode::device)
      : Error(std::move(text), code, "DeviceError") {}
};

/// Ranks that compute together: one has not come, has ended or has failed, or does other than the others.
class CommunicationError : public Error {
 public:
  explicit CommunicationError(ErrorText text, ErrorCode code = ErrorCode::communication)
      : Error(std::move(text), code, "CommunicationError") {}
};

/// A broken promise inside SectionFlow: please report it.
class InternalError : public Error {
 public:
  explicit InternalError(ErrorText text, ErrorCode code = ErrorCode::internal)
      : Error(std::move(text), code, "InternalError") {}
};

/// Makes `call` for a user at `where`; an Error that leaves it says so: as "where", or as "call" when the error has the
/// place of an operation already.
template <class Call>
decltype(auto) call_at(Where where, Call&& call) {
  try {
    return call();
  } catch (Error& error) {
    const std::string place = where.text();
    const std::string known = error.fact("where");
    if (known != place) error.add_fact(known.empty() ? "where" : "call", place);
    throw;
  }
}

}  // namespace sectionflow

/// Throws ErrorType, with its usual code and the parts as text, unless the condition holds. Parts are streamed;
/// hint(...) and other facts become lines of their own.
#define SF_CHECK(condition, ErrorType, ...)                       \
  do {                                                            \
    if (!(condition)) {                                           \
      throw ErrorType(::sectionflow::error_text_of(__VA_ARGS__)); \
    }                                                             \
  } while (false)

/// SF_CHECK with a code of its own: SF_CHECK_CODE(open == nullptr, ArgumentError, ErrorCode::nested_section, "...").
#define SF_CHECK_CODE(condition, ErrorType, code, ...)                    \
  do {                                                                    \
    if (!(condition)) {                                                   \
      throw ErrorType(::sectionflow::error_text_of(__VA_ARGS__), (code)); \
    }                                                                     \
  } while (false)

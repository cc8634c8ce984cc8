#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace sectionflow {

/// Base of every error that SectionFlow throws. The text names the op or call, what came, what was wanted and what to
/// try.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& text) : std::runtime_error(text), text_(text) {}
  const char* what() const noexcept override { return text_.c_str(); }
  /// Appends a line "  <name>: <fact>" unless there is one of that name; what is known first is nearest to the cause.
  void add_fact(const std::string& name, const std::string& fact);

 private:
  std::string text_;
};

/// Shapes that do not fit an operation or a feed.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// A call with arguments, or at a time, that it cannot accept.
class ArgumentError : public Error {
 public:
  using Error::Error;
};

/// A plan that does not fit its memory budget. Nothing has run when it is thrown.
class BudgetError : public Error {
 public:
  BudgetError(const std::string& text, std::size_t budget_bytes, std::size_t minimum_bytes)
      : Error(text), budget_bytes(budget_bytes), minimum_bytes(minimum_bytes) {}
  std::size_t budget_bytes;   ///< what was given
  std::size_t minimum_bytes;  ///< the smallest budget under which the same call runs
};

/// Files and data sets: missing, damaged, of another format, not writable.
class DataError : public Error {
 public:
  using Error::Error;
};

/// The machine: a device that is absent or that refuses.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// A broken promise inside SectionFlow: please report it.
class InternalError : public Error {
 public:
  using Error::Error;
};

/// All parts streamed into one string.
template <class... Parts>
std::string text_of(const Parts&... parts) {
  std::ostringstream stream;
  (stream << ... << parts);
  return stream.str();
}

}  // namespace sectionflow

/// Throws ErrorType with the streamed parts as text unless the condition holds.
#define SF_CHECK(condition, ErrorType, ...)                 \
  do {                                                      \
    if (!(condition)) {                                     \
      throw ErrorType(::sectionflow::text_of(__VA_ARGS__)); \
    }                                                       \
  } while (false)

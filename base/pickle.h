#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace sectionflow {

/// Writes one value in Python's pickle format, protocol 2, by the few opcodes that readers in other languages know too:
/// dictionaries, lists, texts, integers of 64 bits, numbers, booleans, None. Nothing is ever executed by a reader.
///
/// A value in a dictionary follows its key, `key("size"); integer(3);`. Source: Python's pickletools.
class PickleWriter {
 public:
  PickleWriter();

  void begin_dict();
  void end_dict();
  void begin_list();
  void end_list();
  /// A tuple of integers.
  void integers(std::initializer_list<std::int64_t> values);
  void key(std::string_view name);
  /// Bytes that are no UTF-8 become question marks.
  void text(std::string_view text);
  void integer(std::int64_t value);
  void number(double value);
  void truth(bool value);
  void none();

  /// The bytes; nothing may be written afterwards. Throws: InternalError where something is still open.
  std::string finish();

 private:
  void add_text(std::string_view text);
  void add_integer(std::int64_t value);
  void value_is_whole();

  std::string bytes_;
  std::vector<std::size_t> list_items_;  // of what is open: items of a list since they were last appended
  std::vector<bool> is_list_;
};

}  // namespace sectionflow

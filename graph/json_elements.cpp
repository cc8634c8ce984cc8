#include "graph/json_elements.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

namespace sectionflow {
namespace {

using nlohmann::json;

/// Builds one element after another from the events of the JSON library. Its own tree of a text would keep the last of
/// two equal keys silently, and hold all nodes at once.
class ElementBuilder {
 public:
  explicit ElementBuilder(const JsonElementTaker& taker) : taker_(taker) {}

  bool start_object(std::size_t) {
    if (opened_) return open(json::object());
    opened_ = true;
    return true;
  }
  bool start_array(std::size_t) {
    check_opened();
    if (!open_.empty() || in_array_) return open(json::array());
    in_array_ = true;
    index_ = 0;
    return true;
  }
  bool end_object() { return close(); }
  bool end_array() {
    if (open_.empty()) {
      in_array_ = false;
      return true;
    }
    return close();
  }

  bool key(std::string& name) {
    if (name.size() > kMostNameBytes) {
      refuse_at(path(), text_of("got a name of ", name.size(), " bytes; wanted at most ", kMostNameBytes));
    }
    if (open_.empty()) {
      if (!members_.insert(name).second) refuse_at("", text_of("has '", name, "' twice"));
      member_ = name;
      taker_.begin(member_);
      return true;
    }
    if (open_.back()->contains(name)) refuse_at(path(), text_of("has '", name, "' twice"));
    slot_ = &(*open_.back())[name];
    return true;
  }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(std::vector<std::uint8_t>&) { refuse_at(path(), "got binary data; wanted JSON"); }

  bool parse_error(std::size_t position, const std::string&, const json::exception&) {
    refuse_at(path(), text_of("no JSON: damaged or cut off at byte ", position));
  }

 private:
  /// Of the element that is being read.
  std::string path() const { return in_array_ ? text_of(member_, "[", index_, "]") : member_; }

  void check_opened() const {
    if (!opened_) refuse_at("", "got no object; is it a file of a graph?");
  }

  bool add(json value) {
    check_opened();
    (void)place(std::move(value));
    if (open_.empty()) hand_over();
    return true;
  }
  bool open(json container) {
    // The object and the array around the element count as well.
    if (static_cast<int>(open_.size()) + 2 >= kMostJsonDepth) {
      refuse_at(path(), text_of("is nested deeper than ", kMostJsonDepth, " levels"));
    }
    open_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    if (open_.empty()) return true;  // the object around all members
    open_.pop_back();
    if (open_.empty()) hand_over();
    return true;
  }

  json* place(json value) {
    if (++num_values_ > kMostJsonValues) {
      refuse_at(path(), text_of("holds more than ", kMostJsonValues, " values"));
    }
    if (open_.empty()) {
      element_ = std::move(value);
      return &element_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    *slot_ = std::move(value);
    return slot_;
  }

  void hand_over() {
    taker_.take(member_, in_array_ ? std::optional(index_) : std::nullopt, JsonItem(element_, path()));
    ++index_;
    num_values_ = 0;
  }

  const JsonElementTaker& taker_;
  bool opened_ = false;
  std::set<std::string> members_;
  std::string member_;
  bool in_array_ = false;  // the member is an array, of which the elements are taken one by one
  std::size_t index_ = 0;
  json element_;
  std::vector<json*> open_;  // containers within the element; a container does not move while one within it is open
  json* slot_ = nullptr;     // of the last key
  std::size_t num_values_ = 0;
};

}  // namespace

void read_json_elements(std::string_view text, const JsonElementTaker& taker) {
  if (text.size() > kMostGraphFileBytes) {
    refuse_at("", text_of("has ", text.size(), " bytes; wanted at most ", kMostGraphFileBytes));
  }
  // The JSON library takes a zero byte for the end of the text and would ignore what follows.
  const auto zero = text.find('\0');
  if (zero != std::string_view::npos) refuse_at("", text_of("has a zero byte at ", zero));
  ElementBuilder builder(taker);
  json::sax_parse(text.begin(), text.end(), &builder);
}

}  // namespace sectionflow

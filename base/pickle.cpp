#include "base/pickle.h"

#include <bit>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace sectionflow {
namespace {

constexpr char kProto = '\x80', kEmptyDict = '}', kEmptyList = ']', kMark = '(', kBinUnicode = 'X', kLong1 = '\x8a',
               kBinFloat = 'G', kNewTrue = '\x88', kNewFalse = '\x89', kNothing = 'N', kAppends = 'e', kTuple = 't',
               kSetItems = 'u', kStop = '.';

/// Items of a list that one opcode appends. Readers in browsers pass them as arguments of one call, of which there
/// may not be very many; Python's own writer takes as many.
constexpr std::size_t kItemsAtOnce = 1000;

void add_bytes(std::string& bytes, std::uint64_t value, int num_bytes) {
  for (int i = 0; i < num_bytes; ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xFF);
}

}  // namespace

PickleWriter::PickleWriter() : bytes_{kProto, 2} {}

/// Called when a value is there: a list appends it, or is going to.
void PickleWriter::value_is_whole() {
  if (is_list_.empty() || !is_list_.back()) return;
  if (++list_items_.back() < kItemsAtOnce) return;
  bytes_ += kAppends;
  bytes_ += kMark;
  list_items_.back() = 0;
}

void PickleWriter::begin_dict() {
  bytes_ += kEmptyDict;
  bytes_ += kMark;
  is_list_.push_back(false);
  list_items_.push_back(0);
}

void PickleWriter::end_dict() {
  SF_CHECK(!is_list_.empty() && !is_list_.back(), InternalError, "PickleWriter: no dictionary is open");
  bytes_ += kSetItems;
  is_list_.pop_back();
  list_items_.pop_back();
  value_is_whole();
}

void PickleWriter::begin_list() {
  bytes_ += kEmptyList;
  bytes_ += kMark;
  is_list_.push_back(true);
  list_items_.push_back(0);
}

void PickleWriter::end_list() {
  SF_CHECK(!is_list_.empty() && is_list_.back(), InternalError, "PickleWriter: no list is open");
  bytes_ += kAppends;
  is_list_.pop_back();
  list_items_.pop_back();
  value_is_whole();
}

void PickleWriter::integers(std::initializer_list<std::int64_t> values) {
  bytes_ += kMark;
  for (const std::int64_t value : values) add_integer(value);
  bytes_ += kTuple;
  value_is_whole();
}

void PickleWriter::add_text(std::string_view text) {
  const std::string valid = valid_utf8(text);
  bytes_ += kBinUnicode;
  add_bytes(bytes_, valid.size(), 4);
  bytes_ += valid;
}

void PickleWriter::add_integer(std::int64_t value) {
  bytes_ += kLong1;
  bytes_ += '\x08';
  add_bytes(bytes_, static_cast<std::uint64_t>(value), 8);
}

void PickleWriter::key(std::string_view name) {
  SF_CHECK(!is_list_.empty() && !is_list_.back(), InternalError, "PickleWriter: a key outside of a dictionary");
  add_text(name);
}

void PickleWriter::text(std::string_view text) {
  add_text(text);
  value_is_whole();
}

void PickleWriter::integer(std::int64_t value) {
  add_integer(value);
  value_is_whole();
}

void PickleWriter::number(double value) {
  bytes_ += kBinFloat;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int i = 7; i >= 0; --i) bytes_ += static_cast<char>((bits >> (8 * i)) & 0xFF);
  value_is_whole();
}

void PickleWriter::truth(bool value) {
  bytes_ += value ? kNewTrue : kNewFalse;
  value_is_whole();
}

void PickleWriter::none() {
  bytes_ += kNothing;
  value_is_whole();
}

std::string PickleWriter::finish() {
  SF_CHECK(is_list_.empty(), InternalError, "PickleWriter: something is still open");
  bytes_ += kStop;
  return std::move(bytes_);
}

}  // namespace sectionflow

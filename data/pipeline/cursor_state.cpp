#include "data/pipeline/cursor_state.h"

#include <algorithm>

#include "base/error.h"
#include "data/pipeline/cursor.h"

namespace sectionflow {
namespace {

enum : std::int64_t { kPush, kTake, kTakeAll };

void take_from(std::vector<Recipe>& list, std::size_t place) {
  if (place + 1 != list.size()) list[place] = std::move(list.back());
  list.pop_back();
}

}  // namespace

void throw_damaged_position(const char* what) {
  throw DataError(error_text_of("the position of a data pipeline is damaged: ", what,
                                hint("take the text that position() gave, as a whole")),
                  ErrorCode::damaged_position);
}

std::int64_t RecipeReader::next(std::int64_t bound) {
  if (left_.empty()) throw_damaged_position("the recipe of an example ends early");
  const std::int64_t number = left_.back();
  if (number < 0 || number >= bound) throw_damaged_position("the recipe of an example has a number out of range");
  left_ = left_.first(left_.size() - 1);
  return number;
}

RecipeLog::RecipeLog(std::size_t num_lists) : lists_(num_lists) {
  begin_chunk();
}

void RecipeLog::begin_chunk() {
  // As many numbers as the lists have, so that writing the lists down costs no more than the events themselves.
  std::size_t numbers = 0;
  for (const std::vector<Recipe>& list : lists_) {
    for (const Recipe& recipe : list) numbers += recipe.size();
  }
  chunk_ = std::make_shared<Chunk>(lists_, 2 * numbers + 64);
  length_ = 0;
}

std::int64_t* RecipeLog::event(std::size_t length) {
  if (length_ + length > chunk_->capacity) return nullptr;
  std::int64_t* event = chunk_->events.get() + length_;
  length_ += length;
  return event;
}

void RecipeLog::push(std::size_t list, Recipe recipe) {
  if (std::int64_t* written = event(3 + recipe.size())) {
    written[0] = kPush;
    written[1] = static_cast<std::int64_t>(list);
    written[2] = static_cast<std::int64_t>(recipe.size());
    std::copy(recipe.begin(), recipe.end(), written + 3);
    lists_[list].push_back(std::move(recipe));
  } else {
    lists_[list].push_back(std::move(recipe));
    begin_chunk();
  }
}

Recipe RecipeLog::take(std::size_t list, std::size_t place) {
  Recipe taken = std::move(lists_[list][place]);
  take_from(lists_[list], place);
  if (std::int64_t* written = event(3)) {
    written[0] = kTake;
    written[1] = static_cast<std::int64_t>(list);
    written[2] = static_cast<std::int64_t>(place);
  } else {
    begin_chunk();
  }
  return taken;
}

std::vector<Recipe> RecipeLog::take_all(std::size_t list) {
  std::vector<Recipe> taken = std::move(lists_[list]);
  lists_[list].clear();
  if (std::int64_t* written = event(2)) {
    written[0] = kTakeAll;
    written[1] = static_cast<std::int64_t>(list);
  } else {
    begin_chunk();
  }
  return taken;
}

void RecipeLog::reset(RecipeLists lists) {
  lists_ = std::move(lists);
  begin_chunk();
}

RecipeLists RecipeLog::lists_at(const Mark& mark) {
  RecipeLists lists = mark.chunk->lists;
  const std::int64_t* at = mark.chunk->events.get();
  const std::int64_t* end = at + mark.length;
  while (at != end) {
    std::vector<Recipe>& list = lists[static_cast<std::size_t>(at[1])];
    if (at[0] == kPush) {
      list.emplace_back(at + 3, at + 3 + at[2]);
      at += 3 + at[2];
    } else if (at[0] == kTake) {
      take_from(list, static_cast<std::size_t>(at[2]));
      at += 3;
    } else {
      list.clear();
      at += 2;
    }
  }
  return lists;
}

DamageLog::DamageLog() {
  reset({});
}

void DamageLog::add(std::int64_t record) {
  if (records_.insert(record).second) write(record);
}

void DamageLog::remove(std::int64_t record) {
  if (records_.erase(record) > 0) write(~record);
}

void DamageLog::reset(std::set<std::int64_t> records) {
  records_ = std::move(records);
  chunk_ = std::make_shared<Chunk>(nullptr, records_.size() + 16);
  length_ = 0;
  for (std::int64_t record : records_) write(record);
}

void DamageLog::write(std::int64_t event) {
  if (length_ == chunk_->capacity) {
    // Twice as large as what is full: a log of any length has few chunks.
    const std::size_t capacity = 2 * chunk_->capacity;
    chunk_ = std::make_shared<Chunk>(std::move(chunk_), capacity);
    length_ = 0;
  }
  chunk_->events[length_++] = event;
}

std::set<std::int64_t> DamageLog::records_at(const Mark& mark) {
  std::vector<std::span<const std::int64_t>> written = {{mark.chunk->events.get(), mark.length}};
  for (const Chunk* chunk = mark.chunk->before.get(); chunk != nullptr; chunk = chunk->before.get()) {
    written.emplace_back(chunk->events.get(), chunk->capacity);
  }
  std::set<std::int64_t> records;
  for (auto events = written.rbegin(); events != written.rend(); ++events) {
    for (std::int64_t event : *events) {
      if (event >= 0) {
        records.insert(event);
      } else {
        records.erase(~event);
      }
    }
  }
  return records;
}

namespace {

/// What a log says at a mark, as numbers behind others.
struct NumbersOfLog {
  std::vector<std::int64_t>& numbers;

  void operator()(const RecipeLog::Mark& mark) const {
    for (const std::vector<Recipe>& list : RecipeLog::lists_at(mark)) {
      numbers.push_back(static_cast<std::int64_t>(list.size()));
      for (const Recipe& recipe : list) {
        numbers.push_back(static_cast<std::int64_t>(recipe.size()));
        numbers.insert(numbers.end(), recipe.begin(), recipe.end());
      }
    }
  }
  void operator()(const DamageLog::Mark& mark) const {
    const std::set<std::int64_t> records = DamageLog::records_at(mark);
    numbers.push_back(static_cast<std::int64_t>(records.size()));
    numbers.insert(numbers.end(), records.begin(), records.end());
  }
};

}  // namespace

std::vector<std::int64_t> CursorState::numbers() const {
  std::vector<std::int64_t> numbers;
  auto log = logs_.begin();
  for (std::size_t i = 0; i <= numbers_.size(); ++i) {
    for (; log != logs_.end() && log->first == i; ++log) std::visit(NumbersOfLog{numbers}, log->second);
    if (i < numbers_.size()) numbers.push_back(numbers_[i]);
  }
  return numbers;
}

void StateWriter::append(const CursorState& state) {
  const std::size_t offset = state_.numbers_.size();
  state_.numbers_.insert(state_.numbers_.end(), state.numbers_.begin(), state.numbers_.end());
  for (const auto& [index, mark] : state.logs_) state_.logs_.emplace_back(offset + index, mark);
}

std::int64_t StateReader::next(std::int64_t bound) {
  if (left_.empty()) throw_damaged_position("it ends early");
  const std::int64_t number = left_.front();
  if (number < 0 || number >= bound) throw_damaged_position("a number is out of range");
  left_ = left_.subspan(1);
  return number;
}

RecipeLists StateReader::lists(std::size_t num_lists) {
  RecipeLists lists(num_lists);
  for (std::vector<Recipe>& list : lists) {
    const std::int64_t size = next();
    // Each recipe takes two numbers at least: a length that is a lie ends before anything large is allocated.
    for (std::int64_t i = 0; i < size; ++i) {
      const auto length = static_cast<std::size_t>(next(static_cast<std::int64_t>(left_.size())));
      if (length == 0) throw_damaged_position("the recipe of an example is empty");
      list.emplace_back(left_.begin(), left_.begin() + static_cast<std::ptrdiff_t>(length));
      left_ = left_.subspan(length);
    }
  }
  return lists;
}

std::set<std::int64_t> StateReader::records() {
  std::set<std::int64_t> records;
  for (std::int64_t left = next(); left > 0; --left) records.insert(next());
  return records;
}

CursorState state_of(const Cursor& cursor) {
  StateWriter writer;
  cursor.save(writer);
  return writer.take();
}

}  // namespace sectionflow

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

std::vector<std::int64_t> CursorState::numbers() const {
  std::vector<std::int64_t> numbers;
  const auto append_lists = [&](const RecipeLog::Mark& mark) {
    for (const std::vector<Recipe>& list : RecipeLog::lists_at(mark)) {
      numbers.push_back(static_cast<std::int64_t>(list.size()));
      for (const Recipe& recipe : list) {
        numbers.push_back(static_cast<std::int64_t>(recipe.size()));
        numbers.insert(numbers.end(), recipe.begin(), recipe.end());
      }
    }
  };
  auto lists = lists_.begin();
  for (std::size_t i = 0; i <= numbers_.size(); ++i) {
    for (; lists != lists_.end() && lists->first == i; ++lists) append_lists(lists->second);
    if (i < numbers_.size()) numbers.push_back(numbers_[i]);
  }
  return numbers;
}

void StateWriter::append(const CursorState& state) {
  const std::size_t offset = state_.numbers_.size();
  state_.numbers_.insert(state_.numbers_.end(), state.numbers_.begin(), state.numbers_.end());
  for (const auto& [index, mark] : state.lists_) state_.lists_.emplace_back(offset + index, mark);
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

CursorState state_of(const Cursor& cursor) {
  StateWriter writer;
  cursor.save(writer);
  return writer.take();
}

}  // namespace sectionflow

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <variant>
#include <vector>

namespace sectionflow {

/// Numbers of states and recipes lie below it, so that counting on from one that is not trusted stays in range.
inline constexpr std::int64_t kStateBound = std::int64_t{1} << 62;

/// How an example is made again: a few numbers for each stage that it has come through, the source's first.
using Recipe = std::vector<std::int64_t>;
/// The recipes of the examples that a stage holds, in its lists.
using RecipeLists = std::vector<std::vector<Recipe>>;

/// Reads a recipe from its end, the stage that stands last first. Throws: DataError for one that no cursor has made.
class RecipeReader {
 public:
  explicit RecipeReader(std::span<const std::int64_t> recipe) : left_(recipe) {}
  /// A number in [0, bound).
  std::int64_t next(std::int64_t bound = kStateBound);
  bool at_end() const { return left_.empty(); }

 private:
  std::span<const std::int64_t> left_;
};

/// What a stage that holds examples has done to its lists, written down so that the lists of any earlier moment can be
/// told: a mark costs nothing, whatever the stage holds. Marks may be read on another thread than the log is written
/// on, if they have come there by a queue.
class RecipeLog {
 public:
  explicit RecipeLog(std::size_t num_lists);

  void push(std::size_t list, Recipe recipe);
  /// Takes the recipe at `place` out of a list; the last one of the list gets its place.
  Recipe take(std::size_t list, std::size_t place);
  /// Takes all out of a list.
  std::vector<Recipe> take_all(std::size_t list);
  void reset(RecipeLists lists);
  const RecipeLists& lists() const { return lists_; }

  /// The lists at a moment, and what has been done to them since, `length` numbers of it.
  struct Chunk {
    Chunk(RecipeLists lists, std::size_t capacity)
        : lists(std::move(lists)), events(new std::int64_t[capacity]), capacity(capacity) {}
    const RecipeLists lists;
    const std::unique_ptr<std::int64_t[]> events;
    const std::size_t capacity;
  };
  struct Mark {
    std::shared_ptr<const Chunk> chunk;
    std::size_t length = 0;
  };
  Mark mark() const { return {chunk_, length_}; }
  static RecipeLists lists_at(const Mark& mark);

 private:
  void begin_chunk();
  /// Where an event of so many numbers is written; a new chunk where this one is full.
  std::int64_t* event(std::size_t length);

  RecipeLists lists_;
  std::shared_ptr<Chunk> chunk_;
  std::size_t length_ = 0;
};

/// The records that a stream has left out, written down so that those of any earlier moment can be told, on another
/// thread too: a mark costs nothing, however many they are.
class DamageLog {
 public:
  DamageLog();

  /// The record is damaged, or is not any more; what is known already is not written down again.
  void add(std::int64_t record);
  void remove(std::int64_t record);
  void reset(std::set<std::int64_t> records);
  const std::set<std::int64_t>& records() const { return records_; }

  /// What has been written down, each chunk's behind that of the chunk before it: a record, or ~record for one that is
  /// damaged no more.
  struct Chunk {
    Chunk(std::shared_ptr<const Chunk> before, std::size_t capacity)
        : before(std::move(before)), events(new std::int64_t[capacity]), capacity(capacity) {}
    const std::shared_ptr<const Chunk> before;  // which is full
    const std::unique_ptr<std::int64_t[]> events;
    const std::size_t capacity;
  };
  struct Mark {
    std::shared_ptr<const Chunk> chunk;
    std::size_t length = 0;
  };
  Mark mark() const { return {chunk_, length_}; }
  static std::set<std::int64_t> records_at(const Mark& mark);

 private:
  void write(std::int64_t event);

  std::set<std::int64_t> records_;
  std::shared_ptr<Chunk> chunk_;
  std::size_t length_ = 0;
};

/// Where a pipeline stands: numbers, and between them logs that are told when they are asked for.
class CursorState {
 public:
  std::vector<std::int64_t> numbers() const;

 private:
  friend class StateWriter;
  using Mark = std::variant<RecipeLog::Mark, DamageLog::Mark>;
  std::vector<std::int64_t> numbers_;
  std::vector<std::pair<std::size_t, Mark>> logs_;  // each before the number of that index
};

/// Collects the state of a pipeline, stage by stage.
class StateWriter {
 public:
  void number(std::int64_t number) { state_.numbers_.push_back(number); }
  void lists(const RecipeLog& log) { state_.logs_.emplace_back(state_.numbers_.size(), log.mark()); }
  void records(const DamageLog& log) { state_.logs_.emplace_back(state_.numbers_.size(), log.mark()); }
  /// All of a state that was saved before.
  void append(const CursorState& state);
  CursorState take() { return std::move(state_); }

 private:
  CursorState state_;
};

/// Reads the numbers of a state in the order in which they were written. Throws: DataError (SF-E404) for numbers that
/// no pipeline has written.
class StateReader {
 public:
  explicit StateReader(std::span<const std::int64_t> numbers) : left_(numbers) {}
  /// A number in [0, bound).
  std::int64_t next(std::int64_t bound = kStateBound);
  RecipeLists lists(std::size_t num_lists);
  std::set<std::int64_t> records();
  bool at_end() const { return left_.empty(); }

 private:
  std::span<const std::int64_t> left_;
};

class Cursor;

/// The state of a cursor by itself.
CursorState state_of(const Cursor& cursor);

[[noreturn]] void throw_damaged_position(const char* what);

}  // namespace sectionflow

// A source that is read from its start.

#include <algorithm>
#include <set>
#include <type_traits>
#include <utility>

#include "data/pipeline/cursor.h"

namespace sectionflow {
namespace {

/// Records are numbered by the calls of ExampleStream::next(), damaged ones too: a stream that leaves out a record must
/// be asked for it in the same way when it is read again.
class StreamCursor : public Cursor {
 public:
  StreamCursor(const StreamSource& source, PipelineContext& context, CursorNeeds needs)
      : source_(source), context_(context), needs_(needs) {}

  void begin(std::int64_t epoch) override {
    epoch_ = epoch;
    stand_at(0);
  }

  bool next(PipelineItem& item) override {
    return reading([&] {
      seek();
      while (!ended_ && !context_.is_stopping()) {
        const std::int64_t record = at_;
        std::optional<Example> example = read();
        wanted_ = at_;
        if (!example) continue;
        item = {std::move(*example), {}, epoch_, 1};
        if (needs_.recipes) item.recipe.push_back(record);
        return true;
      }
      return false;
    });
  }

  std::int64_t skip(std::int64_t count) override {
    if (needs_.policy != ErrorPolicy::fail) return Cursor::skip(count);
    return reading([&] {
      seek();
      const std::int64_t skipped = ended_ ? 0 : leave_out(count);
      wanted_ = at_;
      return skipped;
    });
  }

  void save(StateWriter& state) const override {
    state.number(wanted_);
    state.records(damaged_);
  }
  void restore(std::int64_t epoch, StateReader& state) override {
    epoch_ = epoch;
    stand_at(state.next());
    damaged_.reset(state.records());
  }
  PipelineItem remake(std::int64_t epoch, RecipeReader& recipe) override {
    epoch_ = epoch;
    const std::int64_t record = recipe.next();
    stand_at(record);
    PipelineItem item;
    if (!next(item) || at_ != record + 1) throw_damaged_position("the source lacks an example that was there");
    item.recipe.clear();
    return item;
  }

 private:
  void stand_at(std::int64_t record) {
    wanted_ = record;
    if (at_ > record || ended_) stream_.reset();
    ended_ = false;
  }

  /// Nobody knows where a stream stands that has thrown: it is opened anew if anything is read behind that.
  template <class Read>
  std::invoke_result_t<Read> reading(const Read& read) {
    try {
      return read();
    } catch (...) {
      stream_.reset();
      throw;
    }
  }

  /// Opens the stream where it has to be, and brings it to the record that is wanted.
  void seek() {
    if (stream_ == nullptr) {
      stream_ = source_.open();
      SF_CHECK(stream_ != nullptr, ArgumentError, source_.name(), ": open() gave no stream");
      at_ = 0;
    }
    while (at_ < wanted_ && !ended_ && !context_.is_stopping()) {
      const std::set<std::int64_t>& all = damaged_.records();
      const auto damaged = all.lower_bound(at_);
      const std::int64_t healthy = (damaged == all.end() ? wanted_ : std::min(*damaged, wanted_)) - at_;
      if (healthy > 0) {
        leave_out(healthy);
      } else {
        leave_out_again();
      }
    }
  }

  std::int64_t leave_out(std::int64_t count) {
    const std::int64_t skipped = std::clamp<std::int64_t>(stream_->skip(count), 0, count);
    at_ += skipped;
    if (skipped < count) ended_ = true;
    return skipped;
  }

  /// The record that could not be read when what is wanted was counted, and what was left out with it. It may be read
  /// well by now, where a disk or a network had failed: what stands behind it keeps its number.
  void leave_out_again() {
    try {
      if (!stream_->next()) ended_ = true;
    } catch (const DataError& error) {
      if (!leaves_out(needs_.policy, error)) throw;
    }
    if (ended_) return;
    ++at_;
    leave_file_out();
  }

  void leave_file_out() {
    if (needs_.policy == ErrorPolicy::skip_file && !stream_->skip_file()) ended_ = true;
  }

  /// The next record; nothing when it is left out, or at the end.
  std::optional<Example> read() {
    try {
      std::optional<Example> example = stream_->next();
      if (example) damaged_.remove(at_++);
      if (!example) ended_ = true;
      return example;
    } catch (DataError& error) {
      error.add_fact("example", text_of(at_, " of ", source_.name()));
      if (!leaves_out(needs_.policy, error)) throw;
      damaged_.add(at_++);
      context_.count_skipped({this, epoch_, at_ - 1}, error.what(), needs_.policy == ErrorPolicy::skip_file);
      leave_file_out();
      return std::nullopt;
    }
  }

  const StreamSource& source_;
  PipelineContext& context_;
  const CursorNeeds needs_;
  std::int64_t epoch_ = 0;
  std::unique_ptr<ExampleStream> stream_;
  std::int64_t at_ = 0;      // the record that the stream gives next
  std::int64_t wanted_ = 0;  // the record that next() gives next
  bool ended_ = false;
  DamageLog damaged_;  // records that were left out when they were last read
};

}  // namespace

CursorPtr make_stream_cursor(const StreamSource& source, PipelineContext& context, CursorNeeds needs) {
  return std::make_unique<StreamCursor>(source, context, needs);
}

}  // namespace sectionflow

#include "train/batch_source.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "runtime/engine.h"
#include "runtime/lent_memory.h"

namespace sectionflow {
namespace {

/// Between where a source stands and which order that is of.
constexpr char kOrderMark = '|';

struct PassAndBatch {
  std::int64_t pass = 0, batch = 0;
};

std::string text_of_position(std::int64_t pass, std::int64_t batch) {
  return std::to_string(pass) + " " + std::to_string(batch);
}

PassAndBatch read_position(const std::string& text, const char* source) {
  PassAndBatch read;
  if (text.empty()) return read;
  const char* end = text.data() + text.size();
  const auto pass = std::from_chars(text.data(), end, read.pass);
  const bool has_pass = pass.ec == std::errc() && pass.ptr != end && *pass.ptr == ' ';
  const auto batch = has_pass ? std::from_chars(pass.ptr + 1, end, read.batch) : pass;
  SF_CHECK_CODE(has_pass && batch.ec == std::errc() && batch.ptr == end && read.pass >= 0 && read.batch >= 0, DataError,
                ErrorCode::training_position, source, ": '", text.substr(0, 60),
                "' is no position; wanted the numbers of a pass and of a batch, as in '3 120'",
                hint("restore a source with a position of a source of the same kind"));
  return read;
}

/// What a session lends, for those who know no session.
class SessionMemory final : public BatchMemory {
 public:
  explicit SessionMemory(std::shared_ptr<LentMemory> lent) : lent_(std::move(lent)) {}

  std::shared_ptr<std::byte[]> allocate(std::size_t num_bytes, std::size_t alignment) override {
    return alignment <= LentMemory::kAlignment ? lent_->lend(num_bytes) : nullptr;
  }

 private:
  const std::shared_ptr<LentMemory> lent_;
};

}  // namespace

void BatchSource::look_ahead(const LookAtTensor& /*look*/) const {}

std::function<std::string()> BatchSource::position_later() const {
  return [text = position()] { return text; };
}

void BatchSource::lend(std::shared_ptr<BatchMemory> /*memory*/) {}

std::shared_ptr<BatchMemory> batch_memory(Session& session) {
  auto lent = engine(session).lent_memory();
  return lent != nullptr ? std::make_shared<SessionMemory>(std::move(lent)) : nullptr;
}

FunctionBatches::FunctionBatches(Function function, Where where) : function_(std::move(function)) {
  call_at(where, [&] {
    SF_CHECK(function_ != nullptr, ArgumentError,
             "FunctionBatches: the function is empty; wanted one that gives the "
             "batch of a pass");
  });
}

std::optional<Example> FunctionBatches::next() {
  auto batch = function_(pass_, batch_);
  if (batch) {
    ++batch_;
  } else {
    ++pass_;
    batch_ = 0;
  }
  return batch;
}

std::string FunctionBatches::position() const {
  return text_of_position(pass_, batch_);
}

void FunctionBatches::restore(const std::string& position) {
  const PassAndBatch read = read_position(position, "FunctionBatches");
  pass_ = read.pass;
  batch_ = read.batch;
}

ImageBatches::ImageBatches(const LabeledImages& images, BatchLoaderOptions options)
    : images_(images), options_(std::move(options)) {
  options_.epochs = kEndless;
  order_ = text_of(kOrderMark, images_.images.shape()[0], " images in batches of ", options_.batch,
                   options_.drop_remainder ? ", whole ones" : "",
                   options_.shuffle ? text_of(", seed ", options_.seed) : std::string(", as they come"));
  load_from(options_.first_epoch, options_.first_batch);
}

void ImageBatches::load_from(std::int64_t pass, std::int64_t batch) {
  BatchLoaderOptions options = options_;
  options.first_epoch = pass;
  options.first_batch = batch;
  loader_ = std::make_unique<BatchLoader>(images_, std::move(options));
  loader_->lend(memory_);
  has_failed_ = false;
  pass_ = pass;
  batch_ = batch;
}

std::optional<Example> ImageBatches::next() {
  if (batch_ == loader_->batches_per_epoch()) {
    ++pass_;
    batch_ = 0;
    return std::nullopt;
  }
  if (has_failed_) load_from(pass_, batch_);
  has_failed_ = true;
  auto batch = loader_->next();
  has_failed_ = false;
  ++batch_;
  Example example;
  example.emplace("image", std::move(batch->images));
  example.emplace("label", std::move(batch->labels));
  return example;
}

void ImageBatches::look_ahead(const LookAtTensor& look) const {
  // Behind an error the batch is made again by another loader.
  if (has_failed_) return;
  loader_->look_ahead([&](const Batch& batch) {
    look("image", batch.images);
    look("label", batch.labels);
  });
}

std::string ImageBatches::position() const {
  return text_of_position(pass_, batch_) + order_;
}

void ImageBatches::restore(const std::string& position) {
  // Positions of earlier versions are the two numbers alone.
  const auto end = std::find(position.begin(), position.end(), kOrderMark);
  const std::string order(end, position.end());
  SF_CHECK_CODE(order.empty() || order == order_, DataError, ErrorCode::training_position, "ImageBatches: position '",
                position.substr(0, 200), "' is of batches in another order; those of '", images_.name, "' are '",
                order_.substr(1), "'",
                hint("go on with the images, the size of batches, the seed and the shuffling that the position is of"));
  const PassAndBatch read = read_position({position.begin(), end}, "ImageBatches");
  SF_CHECK_CODE(read.batch <= loader_->batches_per_epoch(), DataError, ErrorCode::training_position,
                "ImageBatches: position '", position, "' is behind the last batch; a pass of '", images_.name, "' has ",
                loader_->batches_per_epoch(), " batches",
                hint("go on with the data and the size of batches that the position is of"));
  if (read.pass != pass_ || read.batch != batch_) load_from(read.pass, read.batch);
}

void ImageBatches::lend(std::shared_ptr<BatchMemory> memory) {
  memory_ = std::move(memory);
  loader_->lend(memory_);
}

DatasetBatches::DatasetBatches(Dataset batches) : batches_(std::move(batches)) {}

DatasetIterator& DatasetBatches::iterator() const {
  if (iterator_) return *iterator_;
  iterator_.emplace(begin_.empty() ? batches_.iterate_epoch(pass_) : batches_.iterate(begin_));
  iterator_->lend(memory_);
  if (begin_.empty() && pass_ == 0 && beginning_.empty()) beginning_ = text_of(pass_, " ", iterator_->position());
  return *iterator_;
}

void DatasetBatches::drop_iterator() noexcept {
  before_ = statistics();
  iterator_.reset();
}

std::optional<Example> DatasetBatches::next() {
  try {
    auto batch = iterator().next();
    if (!batch) {
      drop_iterator();
      begin_.clear();
      ++pass_;
    }
    return batch;
  } catch (...) {
    // An iterator gives its error again and again: what a disk has refused once may be there the next time.
    if (iterator_) {
      begin_ = iterator_->position();
      drop_iterator();
    }
    throw;
  }
}

void DatasetBatches::look_ahead(const LookAtTensor& look) const {
  if (iterator_) iterator_->look_ahead(look);
}

std::string DatasetBatches::position() const {
  return text_of(pass_, " ", iterator().position());
}

std::function<std::string()> DatasetBatches::position_later() const {
  return [pass = pass_, tell = iterator().position_later()] { return text_of(pass, " ", tell()); };
}

void DatasetBatches::restore(const std::string& position) {
  if (position.empty()) {
    // What has been read ahead at the beginning, for one by an evaluation that went back, is of use.
    if (iterator_ && pass_ == 0 && this->position() == beginning_) return;
    drop_iterator();
    begin_.clear();
    pass_ = 0;
    return;
  }
  const char* end = position.data() + position.size();
  std::int64_t pass = 0;
  const auto read = std::from_chars(position.data(), end, pass);
  const bool is_position =
      read.ec == std::errc() && pass >= 0 && pass >> 62 == 0 && end - read.ptr >= 2 && *read.ptr == ' ';
  SF_CHECK_CODE(is_position, DataError, ErrorCode::training_position, "DatasetBatches: '", position.substr(0, 60),
                "' is no position; wanted the number of a pass, and a position of the data set behind a space",
                hint("restore a source with a position of a source of the same kind"));
  if (iterator_ && position == this->position()) return;
  std::string begin(read.ptr + 1, end);
  DatasetIterator there = batches_.iterate(begin);
  drop_iterator();
  iterator_.emplace(std::move(there));
  iterator_->lend(memory_);
  begin_ = std::move(begin);
  pass_ = pass;
}

void DatasetBatches::lend(std::shared_ptr<BatchMemory> memory) {
  memory_ = std::move(memory);
  if (iterator_) iterator_->lend(memory_);
}

DatasetStatistics DatasetBatches::statistics() const {
  DatasetStatistics all = before_;
  if (!iterator_) return all;
  DatasetStatistics now = iterator_->statistics();
  all.examples += now.examples;
  all.batches += now.batches;
  all.bytes += now.bytes;
  all.seconds_waited += now.seconds_waited;
  all.skipped_records += now.skipped_records;
  all.skipped_files += now.skipped_files;
  if (!now.last_skipped.empty()) all.last_skipped = std::move(now.last_skipped);
  return all;
}

}  // namespace sectionflow

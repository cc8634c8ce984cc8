#include "data/dataset.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/one_at_a_time.h"
#include "data/pipeline/cursor.h"
#include "data/pipeline/node.h"
#include "data/pipeline/position.h"

namespace sectionflow {
namespace {

/// Examples that lie side by side in tensors. Owns: a share of their bytes.
class TensorSource : public IndexedSource {
 public:
  TensorSource(const std::vector<std::pair<std::string, const HostTensor*>>& tensors, const std::string& name) {
    SF_CHECK(!tensors.empty(), ArgumentError, "Dataset::from got no tensors");
    for (const auto& [tensor_name, tensor] : tensors) {
      const Shape& shape = tensor->shape();
      SF_CHECK(shape.rank() >= 1, ShapeError, "Dataset::from: '", tensor_name, "' is ", tensor->type().text(),
               "; wanted a first axis that counts the examples");
      if (rows_.empty()) size_ = shape[0];
      SF_CHECK(shape[0] == size_, ShapeError, "Dataset::from: '", tensor_name, "' is ", tensor->type().text(),
               " and has ", shape[0], " examples, '", rows_.front().name, "' has ", size_);
      const std::vector<std::int64_t> dims(shape.dims().begin() + 1, shape.dims().end());
      rows_.push_back({tensor_name, {tensor->dtype(), Shape(dims)}, tensor->shared_bytes()});
      name_ += (name_.empty() ? name + " {" : ", ") + tensor_name + " " + tensor->type().text();
    }
    name_ += "}";
  }

  std::string name() const override { return name_; }
  std::int64_t size() const override { return size_; }
  Example at(std::int64_t index) const override {
    SF_CHECK(index >= 0 && index < size_, ArgumentError, name_, ": example ", index, " of ", size_);
    Example example;
    for (const Row& row : rows_) {
      HostTensor tensor(row.type);
      const std::size_t bytes = tensor.num_bytes();
      if (bytes > 0) std::memcpy(tensor.bytes(), row.bytes.get() + static_cast<std::size_t>(index) * bytes, bytes);
      example.insert_or_assign(row.name, std::move(tensor));
    }
    return example;
  }

 private:
  struct Row {
    std::string name;
    TensorType type;  // of one example
    std::shared_ptr<const std::byte[]> bytes;
  };
  std::vector<Row> rows_;
  std::int64_t size_ = 0;
  std::string name_;
};

/// The examples that a function gives by their number.
class FunctionSource : public StreamSource {
 public:
  using Function = std::function<std::optional<Example>(std::int64_t)>;
  FunctionSource(std::string name, Function function) : name_(std::move(name)), function_(std::move(function)) {}

  std::string name() const override { return name_; }
  std::unique_ptr<ExampleStream> open() const override { return std::make_unique<Stream>(function_); }

 private:
  class Stream : public ExampleStream {
   public:
    explicit Stream(const Function& function) : function_(function) {}
    std::optional<Example> next() override {
      if (ended_) return std::nullopt;
      std::optional<Example> example = function_(next_++);
      ended_ = !example.has_value();
      return example;
    }
    std::int64_t skip(std::int64_t count) override {
      // Behind the end the function gives nothing either.
      const std::int64_t skipped = std::min(count, std::numeric_limits<std::int64_t>::max() - next_);
      next_ += skipped;
      return skipped;
    }

   private:
    const Function& function_;
    std::int64_t next_ = 0;
    bool ended_ = false;
  };
  const std::string name_;
  const Function function_;
};

}  // namespace

// ---- The walk.

struct DatasetIterator::State {
  State(std::shared_ptr<const PipelineNode> node, std::int64_t epoch)
      : node(std::move(node)), context(most_threads(*this->node)), epoch(epoch) {
    cursor = make_cursor(*this->node, context);
  }
  ~State() { context.stop(); }

  const std::shared_ptr<const PipelineNode> node;
  PipelineContext context;
  CursorPtr cursor;  // behind what it uses
  const std::int64_t epoch;
  CursorState delivered;
  std::int64_t delivered_epoch = 0;
  DatasetStatistics statistics;
  std::exception_ptr error;
  bool ended = false;
  OneAtATime user;
};

DatasetIterator::DatasetIterator(std::unique_ptr<State> state) : state_(std::move(state)) {}
DatasetIterator::DatasetIterator(DatasetIterator&&) noexcept = default;
DatasetIterator& DatasetIterator::operator=(DatasetIterator&&) noexcept = default;
DatasetIterator::~DatasetIterator() = default;

std::optional<Example> DatasetIterator::next() {
  State& state = *state_;
  const auto entry = state.user.enter("the iterator of a data set");
  if (state.error) std::rethrow_exception(state.error);
  if (state.ended) return std::nullopt;
  const auto begin = std::chrono::steady_clock::now();
  PipelineItem item;
  try {
    state.ended = !state.cursor->next(item);
    if (!state.ended) state.delivered = state_of(*state.cursor);
  } catch (...) {
    state.error = std::current_exception();
  }
  DatasetStatistics& statistics = state.statistics;
  statistics.seconds_waited += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (state.error) std::rethrow_exception(state.error);
  if (state.ended) return std::nullopt;
  state.delivered_epoch = item.epoch;
  statistics.examples += item.num_examples;
  ++statistics.batches;
  for (const auto& [name, tensor] : item.example) statistics.bytes += static_cast<std::int64_t>(tensor.num_bytes());
  return std::move(item.example);
}

void DatasetIterator::look_ahead(const LookAtTensor& look) const {
  const auto entry = state_->user.enter("the iterator of a data set");
  // Behind an error and the end nothing comes.
  if (!state_->error && !state_->ended) state_->cursor->look_ahead(look);
}

std::string DatasetIterator::position() const {
  const auto entry = state_->user.enter("the iterator of a data set");
  return position_text({state_->epoch, state_->delivered_epoch, state_->delivered.numbers()},
                       identity_lines(*state_->node));
}

std::function<std::string()> DatasetIterator::position_later() const {
  const auto entry = state_->user.enter("the iterator of a data set");
  return [node = state_->node, epoch = state_->epoch, delivered_epoch = state_->delivered_epoch,
          delivered = state_->delivered] {
    return position_text({epoch, delivered_epoch, delivered.numbers()}, identity_lines(*node));
  };
}

void DatasetIterator::lend(std::shared_ptr<BatchMemory> memory) {
  const auto entry = state_->user.enter("the iterator of a data set");
  state_->context.lend(std::move(memory));
}

std::int64_t DatasetIterator::epoch() const {
  return state_->delivered_epoch;
}

DatasetStatistics DatasetIterator::statistics() const {
  const auto entry = state_->user.enter("the iterator of a data set");
  DatasetStatistics statistics = state_->statistics;
  const PipelineContext::Skipped skipped = state_->context.skipped();
  statistics.skipped_records = skipped.records;
  statistics.skipped_files = skipped.files;
  statistics.last_skipped = skipped.last;
  return statistics;
}

// ---- The description.

Dataset Dataset::from(std::shared_ptr<const IndexedSource> source) {
  return Dataset(add_operation(std::move(source), nullptr));
}
Dataset Dataset::from(std::shared_ptr<const StreamSource> source) {
  return Dataset(add_operation(std::move(source), nullptr));
}
Dataset Dataset::from(Example tensors, std::string name) {
  std::vector<std::pair<std::string, const HostTensor*>> rows;
  for (const auto& [tensor_name, tensor] : tensors) rows.emplace_back(tensor_name, &tensor);
  return from(std::shared_ptr<const IndexedSource>(std::make_shared<TensorSource>(rows, name)));
}
Dataset Dataset::from(const LabeledImages& images) {
  SF_CHECK(images.images.dtype() == Dtype::u8 && images.images.shape().rank() == 4, ShapeError,
           "Dataset::from: data set '", images.name, "' has images ", images.images.type().text(),
           "; wanted u8[N,H,W,C]");
  SF_CHECK(images.labels.type() == (TensorType{Dtype::i32, {images.images.shape()[0]}}), ShapeError,
           "Dataset::from: data set '", images.name, "' has labels ", images.labels.type().text(), "; wanted i32[",
           images.images.shape()[0], "], one for each image");
  return from(std::shared_ptr<const IndexedSource>(std::make_shared<TensorSource>(
      std::vector<std::pair<std::string, const HostTensor*>>{{"image", &images.images}, {"label", &images.labels}},
      text_of("'", images.name, "'"))));
}
Dataset Dataset::generate(std::string name, std::function<std::optional<Example>(std::int64_t)> function) {
  SF_CHECK(function != nullptr, ArgumentError, "Dataset::generate got no function");
  return from(std::shared_ptr<const StreamSource>(
      std::make_shared<FunctionSource>(text_of("generate(", name, ")"), std::move(function))));
}

Dataset Dataset::map(MapFunction function, MapOptions options) const {
  return Dataset(add_operation(MapNode{std::move(function), options}, node_));
}
Dataset Dataset::filter(FilterFunction keep, std::string name) const {
  return Dataset(add_operation(FilterNode{std::move(keep), std::move(name)}, node_));
}
Dataset Dataset::shuffle(ShuffleOptions options) const {
  return Dataset(add_operation(options, node_));
}
Dataset Dataset::batch(BatchOptions options) const {
  return Dataset(add_operation(std::move(options), node_));
}
Dataset Dataset::repeat(std::int64_t epochs) const {
  return Dataset(add_operation(RepeatNode{epochs}, node_));
}
Dataset Dataset::prefetch(PrefetchOptions options) const {
  return Dataset(add_operation(options, node_));
}
Dataset Dataset::shard(std::int64_t count, std::int64_t index, ShardOptions options) const {
  SF_CHECK(count >= 1 && index >= 0 && index < count, ArgumentError, "Dataset::shard: reader ", index, " of ", count,
           "; wanted one of 0 to count - 1");
  return Dataset(
      add_operation(SliceNode{.first = index, .step = count, .whole_rounds = options.drop_remainder}, node_));
}
Dataset Dataset::take(std::int64_t count) const {
  return Dataset(add_operation(SliceNode{.count = count}, node_));
}
Dataset Dataset::skip(std::int64_t count) const {
  return Dataset(add_operation(SliceNode{.first = count}, node_));
}
SplitDataset Dataset::split(SplitOptions options) const {
  auto [train, validation] = split_nodes(*node_, options);
  return {Dataset(add_operation(std::move(train), node_)), Dataset(add_operation(std::move(validation), node_))};
}
Dataset Dataset::on_error(ErrorPolicy policy) const {
  return Dataset(add_operation(policy, node_));
}

std::optional<std::int64_t> Dataset::size() const {
  return node_->size;
}

std::string Dataset::text() const {
  std::string text;
  for (const std::string& line : pipeline_lines(*node_)) text += line + "\n";
  return text;
}

DatasetIterator Dataset::iterate(const std::string& position) const {
  if (position.empty()) return iterate_epoch(0);
  const PipelinePosition place = parse_position(position, identity_lines(*node_));
  auto state = std::make_unique<DatasetIterator::State>(node_, place.epoch);
  StateReader reader(place.numbers);
  state->cursor->restore(place.epoch, reader);
  if (!reader.at_end()) throw_damaged_position("it is too long");
  state->delivered = state_of(*state->cursor);
  state->delivered_epoch = place.delivered_epoch;
  return DatasetIterator(std::move(state));
}

DatasetIterator Dataset::iterate_epoch(std::int64_t epoch) const {
  SF_CHECK(epoch >= 0, ArgumentError, "Dataset::iterate_epoch: epoch is ", epoch, "; wanted 0 or more");
  auto state = std::make_unique<DatasetIterator::State>(node_, epoch);
  state->cursor->begin(epoch);
  state->delivered = state_of(*state->cursor);
  return DatasetIterator(std::move(state));
}

}  // namespace sectionflow

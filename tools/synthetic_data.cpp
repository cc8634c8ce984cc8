#include "tools/synthetic_data.h"

#include <charconv>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace sectionflow {
namespace {

class SyntheticBatches final : public BatchSource {
 public:
  SyntheticBatches(const ZooModel& model, const SyntheticData& data) : make_(model.batch), data_(data) {}

  std::optional<Example> next() override {
    if (batch_ == data_.batches) {
      ++pass_;
      batch_ = 0;
      return std::nullopt;
    }
    Batch made = make_({.batch = data_.batch, .seed = data_.seed, .step = batch_});
    ++batch_;
    Example example;
    example.emplace("image", std::move(made.images));
    example.emplace("label", std::move(made.labels));
    return example;
  }

  std::string position() const override { return text_of(pass_, " ", batch_, " ", description()); }

  void restore(const std::string& position) override {
    std::int64_t pass = 0, batch = 0;
    if (!position.empty()) {
      const char* const end = position.data() + position.size();
      const auto read_pass = std::from_chars(position.data(), end, pass);
      const bool has_pass = read_pass.ec == std::errc() && read_pass.ptr != end && *read_pass.ptr == ' ';
      const auto read_batch = has_pass ? std::from_chars(read_pass.ptr + 1, end, batch) : read_pass;
      SF_CHECK_CODE(has_pass && read_batch.ec == std::errc() && pass >= 0 && batch >= 0, DataError,
                    ErrorCode::training_position, "synthetic data: '", position.substr(0, 60),
                    "' is no position of theirs", hint("take the data that the position is of"));
      const std::string found(read_batch.ptr == end ? end : read_batch.ptr + 1, end);
      SF_CHECK_CODE(found == description() && batch <= data_.batches, ArgumentError, ErrorCode::other_position,
                    "the position is of other data: of ", found.empty() ? "some that it does not name" : found,
                    "; these are ", description(), hint("take the data that the position is of"));
    }
    pass_ = pass;
    batch_ = batch;
  }

  std::optional<std::int64_t> batches_per_pass() const override { return data_.batches; }

 private:
  std::string description() const {
    return text_of("synthetic batches of ", data_.batch, " by seed ", data_.seed, ", ", data_.batches, " a pass");
  }

  std::function<Batch(const BatchAddress&)> make_;
  SyntheticData data_;
  std::int64_t pass_ = 0, batch_ = 0;
};

}  // namespace

std::unique_ptr<BatchSource> synthetic_batches(const ZooModel& model, const SyntheticData& data) {
  return std::make_unique<SyntheticBatches>(model, data);
}

}  // namespace sectionflow

#include <cmath>
#include <utility>

#include "base/error.h"
#include "train/batch_feeds.h"
#include "train/trainer_core.h"

namespace sectionflow {

double FetchedNumbers::number_of(const HostTensor& tensor) {
  switch (tensor.dtype()) {
    case Dtype::f32:
      return tensor.values<float>()[0];
    case Dtype::f64:
      return tensor.values<double>()[0];
    case Dtype::bf16:
      return tensor.values<BFloat16>()[0];
    case Dtype::i32:
      return tensor.values<std::int32_t>()[0];
    case Dtype::i64:
      return static_cast<double>(tensor.values<std::int64_t>()[0]);
    case Dtype::i8:
      return tensor.values<std::int8_t>()[0];
    case Dtype::u8:
      return tensor.values<std::uint8_t>()[0];
    case Dtype::boolean:
      return tensor.values<bool>()[0] ? 1 : 0;
  }
  return 0;
}

void FetchedNumbers::add(const std::string& name, Value value) {
  names_.push_back(name);
  values_.push_back(value);
}

void FetchedNumbers::weigh_by(Value weight) {
  if (weight.valid()) values_.push_back(weight);
}

void FetchedNumbers::set_targets(std::vector<Operation> targets) {
  targets_ = std::move(targets);
  num_nodes_ = -1;
}

double FetchedNumbers::weight_of(const std::vector<HostTensor>& fetched, std::int64_t num_examples) const {
  if (fetched.size() == names_.size()) return static_cast<double>(num_examples);
  return number_of(fetched.back());
}

bool FetchedNumbers::is_weight(double weight) {
  return std::isfinite(weight) && weight >= 0;
}

void FetchedNumbers::check_weight(double weight) const {
  SF_CHECK(is_weight(weight), ArgumentError, "Trainer: the weight '", values_.back().name(), "' of a batch is ", weight,
           "; wanted a number, 0 or more", Fact{"value", values_.back().node().place()});
}

const std::set<NodeId>& FetchedNumbers::read() {
  if (graph_->num_nodes() != num_nodes_ || graph_->generation() != generation_) {
    read_ = placeholders_read_by(*graph_, values_, targets_);
    num_nodes_ = graph_->num_nodes();
    generation_ = graph_->generation();
  }
  return read_;
}

}  // namespace sectionflow

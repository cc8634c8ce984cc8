#include "tools/trained_model.h"

#include "base/error.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layout.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"

namespace sectionflow {
namespace {

/// The share of labels whose class has the largest logit.
Value share_of_hits(Value logits, Value labels) {
  const Value scores = logits.dtype() == Dtype::f32 ? logits : cast(logits, Dtype::f32);
  const bool are_rows = logits.shape().rank() != labels.shape().rank() + 1;
  return mean(cast(equal(argmax(scores), are_rows ? reshape(labels, {-1}) : labels), Dtype::f32));
}

/// Which placeholders a batch feeds shows in the feeds of one.
TrainedModel inputs_of(const TrainableModel& model, const Batch& batch) {
  TrainedModel trained;
  for (const Feed& feed : model.feeds(batch)) {
    if (feed.data.bytes() == batch.images.bytes()) {
      trained.inputs.image = feed.value;
    } else if (feed.data.bytes() == batch.labels.bytes()) {
      trained.inputs.label = feed.value;
    } else {
      trained.training_feeds.push_back(feed);
      const bool is_flag = feed.value.dtype() == Dtype::boolean && feed.value.shape().rank() == 0;
      trained.evaluation_feeds.push_back(is_flag ? Feed(feed.value, false) : feed);
    }
  }
  SF_CHECK(trained.inputs.image.valid() && trained.inputs.label.valid(), InternalError,
           "train: a model of the zoo does not say what it is fed");
  trained.inputs.classes = model.logits.valid() ? model.logits.shape()[-1] : model.classes;
  SF_CHECK(trained.inputs.classes > 0, InternalError, "train: a model of the zoo does not say how many classes it has");
  return trained;
}

}  // namespace

TrainedModel with_metrics(const TrainableModel& model, const Batch& batch, GraphSectionManager& manager) {
  TrainedModel trained = inputs_of(model, batch);
  if (model.logits.valid()) trained.metrics = {{"accuracy", share_of_hits(model.logits, trained.inputs.label)}};
  manager.prepare_training();
  return trained;
}

std::vector<Value> metrics_of(const TrainableModel& model, const Batch& batch) {
  if (!model.logits.valid()) return {};
  return {share_of_hits(model.logits, inputs_of(model, batch).inputs.label)};
}

}  // namespace sectionflow

#pragma once

#include <map>
#include <string>
#include <vector>

#include "compare/strategy.h"
#include "tools/training_data.h"

namespace sectionflow {

/// A model as it is trained here: with what it is fed, and the share of labels that it tells.
struct TrainedModel {
  ModelInputs inputs;
  Feeds training_feeds, evaluation_feeds;  ///< besides the batch
  std::map<std::string, Value> metrics;
};

/// Adds what `train` tells of a model besides its loss, which is nothing where it has no logits of all labels at once,
/// and finds out what it is fed by the feeds of a batch.
TrainedModel with_metrics(const TrainableModel& model, const Batch& batch, GraphSectionManager& manager);

/// What with_metrics adds: the share of labels whose class has the largest logit.
std::vector<Value> metrics_of(const TrainableModel& model, const Batch& batch);

}  // namespace sectionflow

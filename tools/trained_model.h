#pragma once

#include <map>
#include <string>

#include "compare/strategy.h"
#include "tools/training_data.h"

namespace sectionflow {

/// A model as it is trained here: with what it is fed, and the share of labels that it tells.
struct TrainedModel {
  ModelInputs inputs;
  Feeds training_feeds, evaluation_feeds;  ///< besides the batch
  std::map<std::string, Value> metrics;
};

/// Adds what `train` tells of a model besides its loss, and finds out what it is fed by the feeds of a batch.
TrainedModel with_metrics(const TrainableModel& model, const Batch& batch, GraphSectionManager& manager);

/// The share of labels whose class has the largest logit, as with_metrics adds it.
Value accuracy_of(const TrainableModel& model, const Batch& batch);

}  // namespace sectionflow

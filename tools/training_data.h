#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/zoo_arguments.h"
#include "compare/strategy.h"
#include "examples/models/zoo.h"
#include "sources/class_names.h"
#include "train/batch_source.h"

namespace sectionflow {

/// Where `sectionflow train` has its batches from.
struct TrainingDataArguments {
  std::string data = "synthetic";  ///< KIND:PATH
  std::int64_t batch = kUsualBatch;
  std::uint64_t seed = 0;
  std::string validation{};       ///< "10%": the share of what is to be trained on that is kept apart; empty: none
  std::string on_error = "fail";  ///< one of error_policies()
  std::int64_t synthetic_batches = 100;  ///< of synthetic data: in a pass
  std::string option = "--data";         ///< by which `data` was told
};

/// What the model is fed: "image" and "label" of the batches.
struct ModelInputs {
  Value image, label;
  std::int64_t classes = 0;
};

/// What there is to train on, and, where the data have a part for it, to be judged by.
struct TrainingData {
  std::unique_ptr<BatchSource> train, validation;
  ClassNames classes{};  ///< where the data tell them

  /// Of all passes so far; of synthetic data, and where there is none to validate on, zeros.
  DatasetStatistics train_statistics() const;
  DatasetStatistics validation_statistics() const;
};

/// The kinds of data: those of labelled_kinds(), tfrecord, lmdb, text and synthetic.
std::vector<std::string> training_data_kinds();

/// Names of ErrorPolicy: fail, skip_record, skip_file.
const std::vector<std::string>& error_policies();
/// Throws: ArgumentError for none of them, with the nearest.
ErrorPolicy error_policy_named(const std::string& name);

/// Pictures become what the model takes: its size, by linear interpolation, its channels, and levels from 0 to 1.
/// Labels are checked against its classes. Of texts each byte is a token, in windows of what the model reads at once.
/// What is kept apart for validation takes the place of the data's own part for it, and follows from the seed. Records
/// and pictures that cannot be read are what `on_error` is about; a class or channels that the model does not have are
/// errors in any case. Throws: ArgumentError for data that are none, and for a model that takes no pictures with a
/// class each (synthetic data fit any); DataError.
TrainingData training_data(const TrainingDataArguments& arguments, const ModelInputs& inputs, const ZooModel& model);

}  // namespace sectionflow

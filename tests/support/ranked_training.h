#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "tests/support/training_case.h"

namespace sectionflow::testing {

/// Calls of each of so many ranks, on a thread of its own, with their communicators; what each has thrown, as text, ""
/// where nothing. None is waited for longer than `deadline`.
std::vector<std::string> on_ranks(int ranks, const std::function<void(std::shared_ptr<Communicator>)>& call,
                                  std::chrono::milliseconds deadline = std::chrono::seconds(60));

/// A training of so many ranks, each with so many micro-batches an update, or of one process that takes all of these.
struct RankedCase {
  std::function<TrainingCase(int ranks, int micro_batches)> training_case;
  int ranks = 2;
  int micro_batches = 1;
};

/// Trains by ranks, each in its own way, and in one process, and compares after every update: all variables of every
/// rank, and the losses. The first difference, or what ranks have thrown or complained of; empty when there is nothing.
/// `options.steps`: updates; `options_of(rank)` changes the options of a rank.
std::string first_difference_of_ranks(const RankedCase& ranked, How how, TrainOptions options,
                                      const std::function<void(int rank, TrainOptions&)>& options_of = {});

}  // namespace sectionflow::testing

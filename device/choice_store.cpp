#include "device/choice_store.h"

#include <glog/logging.h>

#include <algorithm>

namespace sectionflow {

std::string ChoiceStore::algorithm_for(const std::string& problem, AlgorithmChooser& chooser) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(problem);
  if (found != entries_.end()) {
    Entry& entry = found->second;
    entry.in_use = entry.in_use || chooser.offers(entry.algorithm);
    if (entry.in_use) return entry.algorithm;
    LOG(WARNING) << "the stored algorithm for '" << problem
                 << "' is none that the library offers; another is chosen, and results may differ in their last bits";
    entries_.erase(found);
  }
  std::string chosen = chooser.choose();
  entries_[problem] = {.algorithm = chosen, .in_use = true};
  return chosen;
}

std::vector<std::string> ChoiceStore::add(const AlgorithmChoices& choices) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> kept;
  for (const auto& [problem, algorithm] : choices.algorithms) {
    Entry& entry = entries_[problem];
    if (!entry.in_use) {
      entry.algorithm = algorithm;
    } else if (entry.algorithm != algorithm) {
      kept.push_back(problem);
    }
  }
  return kept;
}

std::string DeviceChoices::algorithm_for(const std::string& problem, AlgorithmChooser& chooser) {
  std::string algorithm = store_->algorithm_for(problem, chooser);
  known_.algorithms[problem] = algorithm;
  return algorithm;
}

std::vector<std::string> DeviceChoices::add(const AlgorithmChoices& choices) {
  const std::vector<std::string> kept = store_->add(choices);
  for (const auto& [problem, algorithm] : choices.algorithms) {
    const bool is_used_otherwise = std::binary_search(kept.begin(), kept.end(), problem);
    if (!is_used_otherwise) known_.algorithms[problem] = algorithm;
  }
  return kept;
}

}  // namespace sectionflow

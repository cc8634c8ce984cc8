#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/export.h"
#include "device/algorithm_choices.h"

namespace SF_API sectionflow {

/// Who knows what a library offers for one problem.
class AlgorithmChooser {
 public:
  virtual ~AlgorithmChooser() = default;
  /// Whether `algorithm`, which somebody's file names, may be taken.
  virtual bool offers(const std::string& algorithm) = 0;
  /// The algorithm to take. Throws: what the library's refusals of the moment throw.
  virtual std::string choose() = 0;
};

/// The choices of a process. The first choice for a problem, or what a file said before, is used from then on by every
/// kernel of every session: so strategies run the same algorithms whatever a library would answer when asked again.
/// Threads: any; one at a time chooses.
class ChoiceStore {
 public:
  /// The algorithm in use for `problem`; else what a file said, if the chooser offers it, or what the chooser chooses.
  std::string algorithm_for(const std::string& problem, AlgorithmChooser& chooser);
  /// Takes over what a file says. What is in use stays; returned are the problems for which the file says otherwise.
  std::vector<std::string> add(const AlgorithmChoices& choices);

 private:
  struct Entry {
    std::string algorithm;
    bool in_use = false;  ///< otherwise a file's word that nobody has checked
  };
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

/// Device memory in which algorithms may be tried, and timed, while kernels are made.
struct TrialMemory {
  std::span<std::byte> lent{};     ///< what nobody needs until the kernels are there
  std::size_t most_allocated = 0;  ///< how much may be allocated instead, to be given back at once
};

/// What a session's device knows of choices: the process's store, and which of its choices concern this session.
/// Threads: one at a time.
class DeviceChoices {
 public:
  /// Before the first kernel is made. Without it each device chooses for itself.
  void share(std::shared_ptr<ChoiceStore> store) { store_ = std::move(store); }
  /// As ChoiceStore's; the choice is then one of known().
  std::string algorithm_for(const std::string& problem, AlgorithmChooser& chooser);
  /// As ChoiceStore::add; known() then has what is said or in use.
  std::vector<std::string> add(const AlgorithmChoices& choices);
  /// Those that this device's kernels run, and those that it was given.
  const AlgorithmChoices& known() const { return known_; }

  /// Whether algorithms are timed before one is chosen (DeviceSpec::autotune).
  bool autotune() const { return autotune_; }
  void set_autotune(bool autotune) { autotune_ = autotune; }
  const TrialMemory& trial_memory() const { return trial_memory_; }
  void set_trial_memory(const TrialMemory& memory) { trial_memory_ = memory; }

 private:
  std::shared_ptr<ChoiceStore> store_ = std::make_shared<ChoiceStore>();
  AlgorithmChoices known_;
  TrialMemory trial_memory_;
  bool autotune_ = false;
};

}  // namespace sectionflow

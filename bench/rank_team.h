#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "bench/rank_arguments.h"
#include "bench/step_training.h"

namespace sectionflow {

/// The trainings of this process: one, or, where its threads are ranks, one for each, on a thread that stays; that of
/// the first is the caller's.
class RankTeam {
 public:
  using Json = StepTraining::Json;

  /// Throws: what communicators_of and the trainings throw.
  RankTeam(const StepArguments& arguments, const RankArguments& ranks);
  ~RankTeam();
  RankTeam(const RankTeam&) = delete;
  RankTeam& operator=(const RankTeam&) = delete;

  StepTraining& first() { return *trainings_.front(); }
  /// Of the first training; nullptr without ranks.
  Communicator* communicator() { return communicators_.empty() ? nullptr : communicators_.front().get(); }

  /// What `work` gives for each training of this process, all at once. Throws: what the first of them has thrown, once
  /// all have ended; the others' calls end with it.
  std::vector<Json> each(const std::function<Json(StepTraining&)>& work);
  /// The same of all ranks, in rank order, on each of them.
  std::vector<Json> each_of_all(const std::function<Json(StepTraining&)>& work);

 private:
  void on_every_thread(const std::function<void(std::size_t)>& task);
  void call(std::size_t index, const std::function<void(std::size_t)>& task) noexcept;
  void serve(std::size_t index);

  std::vector<std::shared_ptr<Communicator>> communicators_;
  std::vector<std::unique_ptr<StepTraining>> trainings_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(std::size_t)>* task_ = nullptr;  // none: threads end
  int number_ = 0;                                          // of the task
  std::size_t busy_ = 0;                                    // threads that have not done it
  std::vector<std::exception_ptr> thrown_;
  std::vector<std::thread> threads_;
};

}  // namespace sectionflow

#include "bench/rank_team.h"

#include <algorithm>
#include <span>

#include "base/error.h"

namespace sectionflow {
namespace {

using Json = StepTraining::Json;

/// What each rank says, on all of them.
std::vector<Json> gathered(Communicator& communicator, const Json& mine) {
  std::string text = mine.dump();
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto own = static_cast<std::int64_t>(text.size());
  std::vector<std::int64_t> sizes(ranks);
  communicator.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(sizes)));
  const auto longest = static_cast<std::size_t>(*std::max_element(sizes.begin(), sizes.end()));
  text.resize(longest, ' ');
  std::string all(ranks * longest, ' ');
  communicator.all_gather(std::as_bytes(std::span(text)), std::as_writable_bytes(std::span(all)));
  std::vector<Json> rows;
  for (std::size_t rank = 0; rank < ranks; ++rank) rows.push_back(Json::parse(all.substr(rank * longest, longest)));
  return rows;
}

}  // namespace

RankTeam::RankTeam(const StepArguments& arguments, const RankArguments& ranks)
    : communicators_(communicators_of(ranks)), trainings_(std::max<std::size_t>(1, communicators_.size())) {
  thrown_.resize(trainings_.size());
  for (std::size_t index = 1; index < trainings_.size(); ++index) threads_.emplace_back([=, this] { serve(index); });
  try {
    on_every_thread([&](std::size_t index) {
      const auto communicator = communicators_.empty() ? nullptr : communicators_[index];
      trainings_[index] = std::make_unique<StepTraining>(arguments, communicator);
    });
  } catch (...) {
    on_every_thread({});
    for (std::thread& thread : threads_) thread.join();
    throw;
  }
}

RankTeam::~RankTeam() {
  on_every_thread({});
  for (std::thread& thread : threads_) thread.join();
}

std::vector<Json> RankTeam::each(const std::function<Json(StepTraining&)>& work) {
  std::vector<Json> answers(trainings_.size());
  on_every_thread([&](std::size_t index) { answers[index] = work(*trainings_[index]); });
  return answers;
}

std::vector<Json> RankTeam::each_of_all(const std::function<Json(StepTraining&)>& work) {
  std::vector<Json> answers = each(work);
  const bool has_others = communicators_.size() == 1 && communicators_.front()->size() > 1;
  return has_others ? gathered(*communicators_.front(), answers.front()) : answers;
}

/// An empty task ends the threads.
void RankTeam::on_every_thread(const std::function<void(std::size_t)>& task) {
  {
    const std::lock_guard lock(mutex_);
    task_ = &task;
    ++number_;
    busy_ = threads_.size();
    std::fill(thrown_.begin(), thrown_.end(), nullptr);
  }
  changed_.notify_all();
  if (task) call(0, task);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return busy_ == 0; });
  for (const std::exception_ptr& thrown : thrown_) {
    if (thrown) std::rethrow_exception(thrown);
  }
}

/// A rank that cannot go on says so, so that the others do not wait for it.
void RankTeam::call(std::size_t index, const std::function<void(std::size_t)>& task) noexcept {
  try {
    task(index);
  } catch (const std::exception& error) {
    thrown_[index] = std::current_exception();
    if (!communicators_.empty()) communicators_[index]->fail(error.what());
  }
}

void RankTeam::serve(std::size_t index) {
  for (int done = 0;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return number_ > done; });
    done = number_;
    const std::function<void(std::size_t)>& task = *task_;
    lock.unlock();
    if (task) call(index, task);
    lock.lock();
    const bool ends = !task;
    if (--busy_ == 0) changed_.notify_all();
    if (ends) return;
  }
}

}  // namespace sectionflow

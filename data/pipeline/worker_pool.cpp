#include "data/pipeline/worker_pool.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/held_signals.h"
#include "data/pipeline/cursor.h"

namespace sectionflow {

std::jthread start_thread(const std::string& what, const std::string& advice, std::function<void()> body) {
  try {
    return with_held_signals([&] { return std::jthread(std::move(body)); });
  } catch (const std::system_error& error) {
    throw DeviceError(error_text_of("a thread for ", what, " was refused by the system: ", error.code().message(),
                                    "; wanted one more",
                                    hint("raise the limit of processes (ulimit -u) or of memory, or ", advice)));
  }
}

WorkerPool::WorkerPool(int threads) {
  try {
    for (int i = 0; i < threads; ++i) {
      threads_.push_back(start_thread(text_of("maps, the ", i + 1, ". of ", threads, ","),
                                      "give the maps fewer MapOptions::threads", [this] { work_all(); }));
    }
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    queued_.notify_all();
    throw;
  }
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  queued_.notify_all();
}

void WorkerPool::work_all() {
  std::unique_lock lock(mutex_);
  while (true) {
    queued_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    const std::shared_ptr<Task> task = std::move(queue_.front());
    queue_.pop_front();
    if (task->phase == Task::Phase::cancelled) continue;
    task->phase = Task::Phase::running;
    lock.unlock();
    try {
      task->output = task->work(std::move(task->input));
      if (task->output) task->output_bytes = counted_bytes(*task->output);
    } catch (...) {
      task->error = std::current_exception();
    }
    // What the work holds of its stage goes before the stage may.
    task->work = nullptr;
    task->input.clear();
    lock.lock();
    task->phase = Task::Phase::done;
    done_.notify_all();
  }
}

bool OrderedWork::has_capacity() {
  if (tasks_.empty()) return true;
  if (tasks_.size() >= max_tasks_) return false;
  const std::lock_guard lock(pool_.mutex_);
  std::size_t waiting_bytes = 0;
  for (const auto& task : tasks_) {
    if (task->phase == WorkerPool::Task::Phase::done) waiting_bytes += task->output_bytes;
  }
  return waiting_bytes < max_bytes_;
}

void OrderedWork::submit(ExampleWork work, Example input) {
  auto task = std::make_shared<WorkerPool::Task>();
  task->work = std::move(work);
  task->input = std::move(input);
  tasks_.push_back(task);
  try {
    const std::lock_guard lock(pool_.mutex_);
    pool_.queue_.push_back(std::move(task));
  } catch (...) {
    tasks_.pop_back();
    throw;
  }
  pool_.queued_.notify_one();
}

std::optional<Example> OrderedWork::take() {
  const std::shared_ptr<WorkerPool::Task> task = tasks_.front();
  {
    std::unique_lock lock(pool_.mutex_);
    pool_.done_.wait(lock, [&] { return task->phase == WorkerPool::Task::Phase::done; });
  }
  tasks_.pop_front();
  if (task->error) std::rethrow_exception(task->error);
  return std::move(task->output);
}

void OrderedWork::drop() {
  const std::shared_ptr<WorkerPool::Task> task = tasks_.front();
  std::unique_lock lock(pool_.mutex_);
  if (task->phase == WorkerPool::Task::Phase::queued) {
    task->phase = WorkerPool::Task::Phase::cancelled;
    std::erase(pool_.queue_, task);
  }
  pool_.done_.wait(lock, [&] { return task->phase != WorkerPool::Task::Phase::running; });
  lock.unlock();
  tasks_.pop_front();
}

void OrderedWork::clear() {
  std::unique_lock lock(pool_.mutex_);
  for (const auto& task : tasks_) {
    if (task->phase == WorkerPool::Task::Phase::queued) task->phase = WorkerPool::Task::Phase::cancelled;
  }
  // The pool would meet them only when it comes to them; what they hold belongs to a stage that may go now.
  std::erase_if(pool_.queue_, [](const auto& task) { return task->phase == WorkerPool::Task::Phase::cancelled; });
  pool_.done_.wait(lock, [this] {
    return std::none_of(tasks_.begin(), tasks_.end(),
                        [](const auto& task) { return task->phase == WorkerPool::Task::Phase::running; });
  });
  lock.unlock();
  tasks_.clear();
}

}  // namespace sectionflow

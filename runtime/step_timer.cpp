#include "runtime/step_timer.h"

#include <glog/logging.h>

#include "runtime/step_events.h"

namespace sectionflow {
namespace {

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void log_pass(const Pass& pass) {
  if (pass.kind == Pass::Kind::whole || pass.section == kNoGroup) return;
  LOG(INFO) << "Running " << (pass.kind == Pass::Kind::backward ? "backward" : "forward") << " pass on section "
            << pass.section;
}

}  // namespace

StepTimer::StepTimer(const Executable& program, ExecutionContext& context)
    : program_(program), context_(context), marks_(context.queue != nullptr ? &context.queue->marks() : nullptr) {
  if (marks_ != nullptr && context.trace != nullptr) begun_.resize(program.schedule.steps.size());
}

void StepTimer::begin() {
  marks_->clear();
  if (!are_wanted()) return;
  origin_us_ = now_us();
  origin_ = marks_->add(Queue::compute);
}

void StepTimer::enter_pass(int pass) {
  if (pass == pass_) return;
  leave_pass();
  pass_ = pass;
  if (context_.log_passes) log_pass(program_.schedule.passes[static_cast<std::size_t>(pass)]);
  if (marks_ == nullptr) {
    pass_start_ = Clock::now();
  } else if (are_wanted()) {
    passes_.push_back({pass, marks_->add(Queue::compute), 0});
  }
}

void StepTimer::leave_pass() {
  if (pass_ < 0) return;
  if (marks_ == nullptr) {
    add_pass(pass_, seconds_between(pass_start_, Clock::now()));
  } else if (are_wanted()) {
    passes_.back().end = marks_->add(Queue::compute);
  }
  pass_ = -1;
}

void StepTimer::begin_step(StepIndex index) {
  if (context_.trace == nullptr) return;
  const Lane lane = lane_of(index);
  if (marks_ == nullptr) {
    start_us_[static_cast<std::size_t>(lane)] = now_us();
    return;
  }
  Begun& begun = begun_[static_cast<std::size_t>(index)];
  begun.start_us = now_us();
  if (is_queue(lane)) begun.mark = marks_->add(queue_of(lane));
}

void StepTimer::end_step(StepIndex index) {
  if (context_.trace == nullptr) return;
  const Lane lane = lane_of(index);
  if (marks_ == nullptr) return add_event(index, start_us_[static_cast<std::size_t>(lane)], now_us());
  Begun& begun = begun_[static_cast<std::size_t>(index)];
  if (!is_queue(lane)) return add_event(index, begun.start_us, now_us());
  begun.end_mark = marks_->add(queue_of(lane));
}

void StepTimer::finish() {
  for (const MarkedPass& pass : passes_) add_pass(pass.pass, marks_->seconds_between(pass.begin, pass.end));
  for (std::size_t i = 0; i < begun_.size(); ++i) {
    const Begun& begun = begun_[i];
    if (begun.end_mark < 0) continue;
    const double start_us = origin_us_ + 1e6 * marks_->seconds_between(origin_, begun.mark);
    add_event(static_cast<StepIndex>(i), start_us,
              start_us + 1e6 * marks_->seconds_between(begun.mark, begun.end_mark));
  }
}

void StepTimer::add_pass(int pass, double seconds) {
  context_.pass_seconds[static_cast<std::size_t>(pass)] += seconds;
  if (!context_.log_pass_times) return;
  LOG(INFO) << program_.schedule.passes[static_cast<std::size_t>(pass)].text() << ": " << seconds * 1e3 << " ms";
}

void StepTimer::add_event(StepIndex index, double start_us, double end_us) {
  Trace::Event event = context_.events->event(index);
  event.cycle = context_.cycle;
  event.start_us = start_us;
  event.duration_us = end_us - start_us;
  context_.trace->add(event);
}

}  // namespace sectionflow

#include "train/learning_rate.h"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "graph/op_def.h"
#include "train/saved_numbers.h"

namespace sectionflow {
namespace {

void check_steps(const char* schedule, std::int64_t steps) {
  SF_CHECK(steps > 0, ArgumentError, schedule, ": steps is ", steps, "; wanted 1 or more");
}

void check_rate(const char* schedule, const char* name, double rate) {
  SF_CHECK(std::isfinite(rate) && rate >= 0, ArgumentError, schedule, ": ", name, " is ",
           std::isnan(rate) ? std::string("nan") : text_of(rate), "; wanted a number of 0 or more");
}

void check_rate_placeholder(const char* who, Value rate) {
  SF_CHECK(rate.valid() && rate.node().op().is_placeholder() && rate.type() == (TensorType{Dtype::f32, {}}),
           ArgumentError, who, ": the learning rate is ",
           rate.valid() ? text_of("'", rate.name(), "' ", rate.type().text()) : std::string("no value"),
           "; wanted a placeholder f32[]",
           hint("make the optimiser with placeholder(graph, \"learning_rate\", {}) as its learning rate"));
}

/// A rate that nothing reads has no effect: the optimiser has been made with another.
void warn_where_unread(const char* who, Value rate) {
  const Graph& graph = rate.graph();
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    for (const Value& input : graph.node(id).inputs()) {
      if (input == rate) return;
    }
  }
  LOG(WARNING) << who << ": no optimiser reads '" << rate.name() << "': give it as its learning rate";
}

/// Of `step` of `steps`, from 0 to 1.
double share(std::int64_t step, std::int64_t steps) {
  return static_cast<double>(std::min(step, steps)) / static_cast<double>(steps);
}

}  // namespace

RateSchedule constant_rate(double rate, Where where) {
  call_at(where, [&] { check_rate("constant_rate", "rate", rate); });
  return [rate](std::int64_t) { return rate; };
}

RateSchedule step_rate(std::vector<std::int64_t> boundaries, std::vector<double> rates, Where where) {
  call_at(where, [&] {
    SF_CHECK(rates.size() == boundaries.size() + 1, ArgumentError, "step_rate: ", rates.size(), " rates for ",
             boundaries.size(), " boundaries; wanted one rate more than boundaries");
    SF_CHECK(std::adjacent_find(boundaries.begin(), boundaries.end(), std::greater_equal<>()) == boundaries.end(),
             ArgumentError, "step_rate: the boundaries do not rise");
    for (const double rate : rates) check_rate("step_rate", "a rate", rate);
  });
  return [boundaries = std::move(boundaries), rates = std::move(rates)](std::int64_t step) {
    const auto behind = std::upper_bound(boundaries.begin(), boundaries.end(), step) - boundaries.begin();
    return rates[static_cast<std::size_t>(behind)];
  };
}

RateSchedule exponential_rate(double rate, double factor, std::int64_t steps, bool by_stairs, Where where) {
  call_at(where, [&] {
    check_steps("exponential_rate", steps);
    check_rate("exponential_rate", "rate", rate);
    check_rate("exponential_rate", "factor", factor);
  });
  return [=](std::int64_t step) {
    const double power = static_cast<double>(step) / static_cast<double>(steps);
    return rate * std::pow(factor, by_stairs ? std::floor(power) : power);
  };
}

RateSchedule cosine_rate(double rate, std::int64_t steps, double last, Where where) {
  call_at(where, [&] {
    check_steps("cosine_rate", steps);
    check_rate("cosine_rate", "rate", rate);
    check_rate("cosine_rate", "last", last);
  });
  return [=](std::int64_t step) {
    return last + (rate - last) * (1 + std::cos(std::numbers::pi * share(step, steps))) / 2;
  };
}

RateSchedule polynomial_rate(double rate, double last, std::int64_t steps, double power, Where where) {
  call_at(where, [&] {
    check_steps("polynomial_rate", steps);
    check_rate("polynomial_rate", "rate", rate);
    check_rate("polynomial_rate", "last", last);
    SF_CHECK(power >= 0, ArgumentError, "polynomial_rate: power is ", power, "; wanted 0 or more");
  });
  return [=](std::int64_t step) {
    return step >= steps ? last : last + (rate - last) * std::pow(1 - share(step, steps), power);
  };
}

RateSchedule warm_up(std::int64_t steps, RateSchedule after, Where where) {
  call_at(where, [&] {
    SF_CHECK(steps >= 0 && after != nullptr, ArgumentError, "warm_up: steps is ", steps,
             "; wanted 0 or more, and a schedule to go on with");
  });
  return [steps, after = std::move(after)](std::int64_t step) {
    if (step >= steps) return after(step - steps);
    return after(0) * static_cast<double>(step + 1) / static_cast<double>(steps + 1);
  };
}

LearningRate::LearningRate(Value rate, RateSchedule schedule, Where where)
    : rate_(rate), schedule_(std::move(schedule)) {
  call_at(where, [&] {
    check_rate_placeholder("LearningRate", rate_);
    SF_CHECK(schedule_ != nullptr, ArgumentError,
             "LearningRate: there is no schedule; wanted one such as "
             "constant_rate(1e-3)");
  });
}

void LearningRate::on_begin(const TrainerState&) {
  if (!std::exchange(has_looked_, true)) warn_where_unread("LearningRate", rate_);
}

void LearningRate::on_step_begin(const TrainerState& state, Feeds& feeds) {
  const double rate = schedule_(state.step);
  SF_CHECK(std::isfinite(rate) && rate >= 0, ArgumentError, "LearningRate: the schedule gives ",
           std::isnan(rate) ? std::string("nan") : text_of(rate), " for step ", state.step,
           "; wanted a number of 0 or more", hint("look at the schedule: steps count from 0 over all fits"));
  feeds.emplace_back(rate_, rate);
  state.log("learning_rate", rate);
}

PlateauLearningRate::PlateauLearningRate(Value rate, PlateauOptions options, Where where)
    : placeholder_(rate), options_(std::move(options)), rate_(options_.rate) {
  call_at(where, [&] {
    check_rate_placeholder("PlateauLearningRate", rate);
    SF_CHECK(options_.factor > 0 && options_.factor < 1, ArgumentError, "PlateauLearningRate: factor is ",
             options_.factor, "; wanted one between 0 and 1");
    SF_CHECK(options_.patience >= 0 && options_.cooldown >= 0 && options_.min_delta >= 0 && options_.least_rate >= 0,
             ArgumentError, "PlateauLearningRate: patience, cooldown, min_delta and least_rate are 0 or more");
    check_rate("PlateauLearningRate", "rate", options_.rate);
  });
}

void PlateauLearningRate::on_begin(const TrainerState& state) {
  check_monitored(state, options_.monitor, "PlateauLearningRate");
  if (!std::exchange(has_warned_, true)) {
    warn_of_direction(options_.monitor, options_.higher_is_better, "PlateauLearningRate");
    warn_where_unread("PlateauLearningRate", placeholder_);
  }
  if (std::exchange(is_restored_, false) || place_ == TrainingPlace::of(state)) return;
  rate_ = options_.rate;
  has_best_ = false;
  best_ = 0;
  bad_epochs_ = cooling_ = 0;
}

void PlateauLearningRate::on_end(const TrainerState& state) {
  place_ = TrainingPlace::of(state);
}

void PlateauLearningRate::on_step_begin(const TrainerState& state, Feeds& feeds) {
  feeds.emplace_back(placeholder_, rate_);
  state.log("learning_rate", rate_);
}

void PlateauLearningRate::on_epoch(const TrainerState& state) {
  if (is_evaluated_later(state, options_.monitor)) return;
  const double value = monitored(state.logs, options_.monitor, "PlateauLearningRate");
  const double gain = options_.higher_is_better ? value - best_ : best_ - value;
  if (!std::isnan(value) && (!has_best_ || gain > options_.min_delta)) {
    has_best_ = true;
    best_ = value;
    bad_epochs_ = 0;
    return;
  }
  if (cooling_ > 0) {
    --cooling_;
    bad_epochs_ = 0;
    return;
  }
  if (++bad_epochs_ <= options_.patience) return;
  rate_ = std::max(rate_ * options_.factor, options_.least_rate);
  bad_epochs_ = 0;
  cooling_ = options_.cooldown;
}

std::string PlateauLearningRate::save() const {
  return saved_numbers(
             {rate_, has_best_ ? 1.0 : 0.0, best_, static_cast<double>(bad_epochs_), static_cast<double>(cooling_)}) +
         watched_text(options_.monitor, options_.higher_is_better);
}

void PlateauLearningRate::restore(const std::string& saved) {
  std::string text = saved;
  const std::string now = watched_text(options_.monitor, options_.higher_is_better);
  const std::string then = take_watched(text).value_or(now);
  std::vector<double> numbers = read_numbers(text, 5, "PlateauLearningRate");
  SF_CHECK_CODE(std::isfinite(numbers[0]) && numbers[0] >= 0, DataError, ErrorCode::training_position,
                "PlateauLearningRate: the rate that it is to go on from is ", numbers[0],
                "; wanted a number of 0 or more", hint("give positions to trainings with the same callbacks"));
  if (then != now) {
    warn_of_watched("PlateauLearningRate", then, now);
    // The rate has come down to where it is; how often it was in vain is of the other number.
    numbers = {numbers[0], 0, 0, 0, 0};
  }
  rate_ = numbers[0];
  has_best_ = numbers[1] != 0;
  best_ = numbers[2];
  bad_epochs_ = count_from(numbers[3]);
  cooling_ = count_from(numbers[4]);
  is_restored_ = true;
}

}  // namespace sectionflow

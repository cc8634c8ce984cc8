// What goes wrong around a training: errors that help, and a trainer that goes on as if nothing had happened.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "runtime/engine.h"
#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/small_training.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using namespace testing_support;

struct Failing : SmallTraining {
  explicit Failing(bool in_sections = true) : SmallTraining(in_sections) {}

  std::string error_of(const FunctionBatches::Function& function) {
    FunctionBatches source(function);
    return whole_error_text<Error>([&] { trainer.fit(source, {.steps = 1, .callbacks = {&rate}}); });
  }
  /// The error of a first batch that is changed.
  std::string error_of(const std::function<void(Example&)>& change) {
    return error_of([change](std::int64_t pass, std::int64_t batch) {
      auto example = small_batch(pass, batch);
      if (example) change(*example);
      return example;
    });
  }

  FunctionBatches source{small_batch};
};

void rename(Example& example, const std::string& from, const std::string& to) {
  auto tensor = example.extract(from);
  tensor.key() = to;
  example.insert(std::move(tensor));
}

TEST(TrainerErrors, TellWhichTensorFeedsNothingAndWhichIsNearest) {
  Failing failing;
  EXPECT_THAT(failing.error_of([](Example& example) { rename(example, "label", "labels"); }),
              AllOf(HasSubstr("SF-E600"), HasSubstr("'labels' i32[8] feeds nothing"), HasSubstr("is 'label' the one")));
  // What is missing is told by the session, which knows what a run reads.
  EXPECT_THAT(failing.error_of([](Example& example) { example.erase("label"); }), HasSubstr("label"));
  Trainer listed(failing.session, *failing.model.manager,
                 {.loss = failing.model.loss, .inputs = {{"features", failing.model.x}}, .ignored = {"id"}});
  FunctionBatches source([](std::int64_t pass, std::int64_t batch) {
    auto example = small_batch(pass, batch);
    if (example) rename(*example, "x", "featurs");
    return example;
  });
  EXPECT_THAT(whole_error_text<Error>([&] { listed.fit(source, {.steps = 1}); }),
              AllOf(HasSubstr("SF-E600"), HasSubstr("no tensor 'features'"), HasSubstr("is 'featurs' the one")));
  FunctionBatches with_id([](std::int64_t pass, std::int64_t batch) {
    auto example = small_batch(pass, batch);
    if (example) rename(*example, "x", "features");
    if (example) example->emplace("id", HostTensor(Dtype::i64, example->at("label").shape()));
    return example;
  });
  EXPECT_EQ(listed.fit(with_id, {.steps = 1, .callbacks = {&failing.rate}}).steps, 1);
}

TEST(TrainerErrors, OfNamesLeaveOutWhatTheSessionDecides) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 6});
  const Value loss = mean(dropout(dense(x, {.features = 1}), {.rate = 0.5F}));
  const Updates updates = training_updates(Sgd{}, loss, {.micro_batches = 2});
  Session session(graph, small_session());
  session.initialize();
  Trainer trainer(session, updates.operations, {.loss = loss});
  for (const char* name : {"last_micro_batc", "trainin"}) {
    FunctionBatches source([&](std::int64_t pass, std::int64_t batch) {
      auto example = small_batch(pass, batch);
      if (example) rename(*example, "label", name);
      return example;
    });
    EXPECT_THAT(whole_error_text<Error>([&] { trainer.fit(source, {.steps = 1}); }),
                AllOf(HasSubstr("SF-E600"), HasSubstr("placeholders are 'x'\n"), Not(HasSubstr("is meant?"))));
  }
}

TEST(TrainerErrors, TellDtypesShapesAndNumbersOfExamplesThatDoNotFit) {
  Failing failing;
  EXPECT_THAT(failing.error_of([](Example& example) {
    example["x"] = HostTensor(Dtype::u8, {8, 6});
  }),
              AllOf(HasSubstr("SF-E601"), HasSubstr("'x' of the batch is u8[8,6]"), HasSubstr("takes f32[?,6]"),
                    HasSubstr("unit_range()")));
  EXPECT_THAT(failing.error_of([](Example& example) { example["label"] = HostTensor(Dtype::i64, {8}); }),
              AllOf(HasSubstr("SF-E601"), HasSubstr("nothing is converted in silence")));
  EXPECT_THAT(failing.error_of([](Example& example) {
    example["x"] = HostTensor(Dtype::f32, {8, 7});
  }),
              AllOf(HasSubstr("SF-E601"), HasSubstr("f32[8,7]")));
  EXPECT_THAT(failing.error_of([](Example& example) { example["label"] = HostTensor(Dtype::i32, {7}); }),
              AllOf(HasSubstr("SF-E602"), HasSubstr("'label' has 7"), HasSubstr("has 8")));
  EXPECT_THAT(failing.error_of([](Example& example) {
    example["x"] = HostTensor(Dtype::f32, {0, 6});
    example["label"] = HostTensor(Dtype::i32, {0});
  }),
              AllOf(HasSubstr("SF-E602"), HasSubstr("no examples")));
  EXPECT_EQ(failing.trainer.step(), 0);
}

TEST(TrainerErrors, AreThrownWhereNothingCanBeTrained) {
  Failing failing;
  EXPECT_THAT(whole_error_text<Error>([&] { failing.trainer.fit(failing.source, {}); }),
              AllOf(HasSubstr("SF-E603"), HasSubstr("no limit is set")));
  EXPECT_THAT(failing.error_of([](std::int64_t, std::int64_t) -> std::optional<Example> { return std::nullopt; }),
              AllOf(HasSubstr("SF-E603"), HasSubstr("a pass of it is empty")));
  EXPECT_THROW(failing.trainer.fit(failing.source, {.epochs = 1, .steps = -1}), ArgumentError);
  EXPECT_THROW(failing.trainer.fit(failing.source, {.epochs = 1, .callbacks = {nullptr}}), ArgumentError);
  EXPECT_THROW(failing.trainer.evaluate(failing.source, {.steps = -1}), ArgumentError);
  EXPECT_THROW(FunctionBatches(nullptr), ArgumentError);
  const auto refused = [&](TrainerOptions options) {
    return error_text<ArgumentError>([&] { Trainer(failing.session, *failing.model.manager, std::move(options)); });
  };
  const SmallModel other(false);
  EXPECT_THAT(refused({.loss = failing.model.logits}), HasSubstr("wanted a single number"));
  EXPECT_THAT(refused({.loss = other.loss}), HasSubstr("no value of the session's graph"));
  EXPECT_THAT(refused({.loss = failing.model.loss, .metrics = {{"loss", failing.model.loss}}}),
              HasSubstr("two metrics"));
  EXPECT_THAT(refused({.metrics = {{"val_x", failing.model.loss}}}), HasSubstr("val_"));
  EXPECT_THAT(refused({.outputs = {{"loss", failing.model.loss}}}), HasSubstr("one row an example"));
  EXPECT_THAT(refused({.inputs = {{"x", failing.model.logits}}}), HasSubstr("wanted a placeholder"));
  EXPECT_THAT(refused({.inputs = {{"x", failing.model.x}, {"x", failing.model.label}}}), HasSubstr("given twice"));
  EXPECT_THAT(refused({.inputs = {{"x", failing.model.x}, {"y", failing.model.x}}}), HasSubstr("two inputs"));
  const History history = failing.trainer.fit(failing.source, {.epochs = 1, .callbacks = {&failing.rate}});
  EXPECT_THAT(whole_error_text<Error>([&] { (void)history.of("acuracy"); }),
              AllOf(HasSubstr("SF-E608"), HasSubstr("is 'accuracy' the one")));
}

TEST(TrainerErrors, AFitWithinAFitIsRefusedAndEvaluationsAreNot) {
  Failing failing;
  Hooks hooks;
  std::string text;
  hooks.step = [&](const TrainerState&) {
    FunctionBatches other(small_batch);
    text = whole_error_text<Error>([&] { failing.trainer.fit(other, {.steps = 1}); });
    EXPECT_THROW(failing.trainer.restore(failing.trainer.position()), ArgumentError);
    EXPECT_TRUE(failing.trainer.evaluate(other).contains("loss"));
    EXPECT_EQ(failing.trainer.predict(other).size(), 1U);
  };
  failing.trainer.fit(failing.source, {.steps = 2, .callbacks = {&failing.rate, &hooks}});
  EXPECT_THAT(text, HasSubstr("SF-E604"));
  EXPECT_EQ(failing.trainer.step(), 2);
}

TEST(TrainerErrors, NameAMonitorThatIsNotThere) {
  Failing failing;
  FunctionBatches validation(small_batch);
  EarlyStopping stopping({.monitor = "val_acuracy"});
  EXPECT_THAT(whole_error_text<Error>([&] {
                failing.trainer.fit(failing.source,
                                    {.epochs = 1, .validation = &validation, .callbacks = {&failing.rate, &stopping}});
              }),
              AllOf(HasSubstr("SF-E608"), HasSubstr("EarlyStopping"), HasSubstr("is 'val_accuracy' the one")));
  EarlyStopping without_validation;
  EXPECT_THAT(whole_error_text<Error>([&] {
                failing.trainer.fit(failing.source, {.epochs = 1, .callbacks = {&failing.rate, &without_validation}});
              }),
              AllOf(HasSubstr("SF-E608"), HasSubstr("'val_loss'"), HasSubstr("FitOptions::validation is the source")));
  PlateauLearningRate plateau(failing.model.rate, {.monitor = "los"});
  EXPECT_THAT(
      whole_error_text<Error>([&] { failing.trainer.fit(failing.source, {.epochs = 1, .callbacks = {&plateau}}); }),
      AllOf(HasSubstr("SF-E608"), HasSubstr("is 'loss' the one")));
  EXPECT_EQ(failing.trainer.step(), 0) << "refused before anything is trained";
  EarlyStopping by_rate({.monitor = "learning_rate"});
  EXPECT_EQ(failing.trainer.fit(failing.source, {.epochs = 1, .callbacks = {&by_rate, &failing.rate}}).steps, 3);
  // A callback of one's own may log the name; where none does, the first epoch tells.
  Hooks own;
  own.epoch = [](const TrainerState& state) { state.log("val_loss", 1); };
  EXPECT_EQ(
      failing.trainer.fit(failing.source, {.epochs = 1, .callbacks = {&failing.rate, &own, &without_validation}}).steps,
      3);
}

TEST(TrainerErrors, OfAnEvaluationWithinATrainingSaySo) {
  Failing failing;
  FunctionBatches validation([](std::int64_t pass, std::int64_t batch) {
    auto example = small_batch(pass, batch);
    if (example) rename(*example, "label", "labels");
    return example;
  });
  EXPECT_THAT(whole_error_text<Error>([&] {
                failing.trainer.fit(failing.source,
                                    {.epochs = 1, .validation = &validation, .callbacks = {&failing.rate}});
              }),
              AllOf(HasSubstr("SF-E600"), HasSubstr("evaluations of FitOptions::validation, before step 1")));
  EXPECT_EQ(failing.trainer.step(), 0);
}

/// Where a callback, a source or a map throws.
enum class Place { begin, step_begin, step, epoch, evaluation_step, evaluation, end, source, map };

TEST(TrainerErrors, OfCallbacksSourcesAndMapsLeaveStepsAndDataInStep) {
  Failing undisturbed;
  FunctionBatches own_validation(small_batch);
  undisturbed.trainer.fit(undisturbed.source, {.max_epochs = 3, .callbacks = {&undisturbed.rate}});
  for (const Place place : {Place::begin, Place::step_begin, Place::step, Place::epoch, Place::evaluation_step,
                            Place::evaluation, Place::end, Place::source, Place::map}) {
    for (const int after : {1, 2, 3, 4}) {
      Failing failing;
      int countdown = after;
      bool is_armed = true;
      const auto fail = [&](Place here) {
        if (here == place && is_armed && --countdown == 0) throw std::runtime_error("planted");
      };
      Hooks hooks, last;
      std::vector<StopReason> ends;
      hooks.begin = [&](const TrainerState&) { fail(Place::begin); };
      hooks.step_begin = [&](const TrainerState&, Feeds&) { fail(Place::step_begin); };
      hooks.step = [&](const TrainerState&) { fail(Place::step); };
      hooks.epoch = [&](const TrainerState&) { fail(Place::epoch); };
      hooks.evaluation_step = [&](const TrainerState&) { fail(Place::evaluation_step); };
      hooks.evaluation = [&](const TrainerState&, const Logs&) { fail(Place::evaluation); };
      hooks.end = [&](const TrainerState&) { fail(Place::end); };
      last.end = [&](const TrainerState& state) { ends.push_back(state.reason); };
      TrainerOptions options = failing.model.options();
      options.inputs = {{"x", failing.model.x, [&](const HostTensor& x) {
                           fail(Place::map);
                           return x.clone();
                         }}};
      Trainer trainer(failing.session, *failing.model.manager, std::move(options));
      FunctionBatches source([&](std::int64_t pass, std::int64_t batch) {
        fail(Place::source);
        return small_batch(pass, batch);
      });
      FunctionBatches validation(small_batch);
      const FitOptions fit = {.max_epochs = 3, .validation = &validation, .callbacks = {&failing.rate, &hooks, &last}};
      try {
        trainer.fit(source, fit);
      } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "planted");
        EXPECT_EQ(failing.session.completed_cycles(), static_cast<std::uint64_t>(trainer.step()));
        if (place == Place::begin) {
          EXPECT_TRUE(ends.empty());
        } else {
          EXPECT_EQ(ends.size(), 1U);
        }
      }
      EXPECT_EQ(validation.position(), "0 0");
      is_armed = false;
      trainer.fit(source, fit);
      EXPECT_EQ(trainer.step(), 9);
      EXPECT_EQ(trainer.epoch(), 3);
      EXPECT_EQ(difference_of(variables_of(undisturbed.session), variables_of(failing.session)), "")
          << static_cast<int>(place) << " " << after;
    }
  }
}

/// Throws when its position is asked for, once.
struct ForgetfulBatches final : BatchSource {
  FunctionBatches batches{small_batch};
  mutable int until = 0;

  std::optional<Example> next() override { return batches.next(); }
  std::string position() const override { return batches.position(); }
  std::function<std::string()> position_later() const override {
    if (until > 0 && --until == 0) throw std::runtime_error("planted");
    return BatchSource::position_later();
  }
  void restore(const std::string& position) override { batches.restore(position); }
};

TEST(TrainerErrors, OfPositionsLeaveStepsAndDataInStep) {
  Failing undisturbed;
  undisturbed.trainer.fit(undisturbed.source, {.max_epochs = 3, .callbacks = {&undisturbed.rate}});
  int num_thrown = 0;
  for (int asked = 1; asked < 14; ++asked) {
    SCOPED_TRACE(text_of("asked ", asked, " times"));
    Failing failing;
    ForgetfulBatches source;
    source.until = asked;
    const FitOptions fit = {.max_epochs = 3, .callbacks = {&failing.rate}};
    std::size_t num_epochs = 0;
    Hooks hooks;
    hooks.epoch = [&](const TrainerState&) { ++num_epochs; };
    FitOptions counted = fit;
    counted.callbacks.push_back(&hooks);
    try {
      failing.trainer.fit(source, counted);
    } catch (const std::runtime_error&) {
      ++num_thrown;
      EXPECT_EQ(failing.session.completed_cycles(), static_cast<std::uint64_t>(failing.trainer.step()));
      failing.trainer.fit(source, counted);
    }
    EXPECT_EQ(failing.trainer.step(), 9);
    EXPECT_EQ(failing.session.completed_cycles(), 9U);
    EXPECT_EQ(num_epochs, 3U);
    EXPECT_EQ(difference_of(variables_of(undisturbed.session), variables_of(failing.session)), "");
  }
  EXPECT_EQ(num_thrown, 13);
}

TEST(TrainerErrors, OnEndOfEachCallbackIsCalledOnceWhateverTheOthersThrow) {
  Failing failing;
  int ends = 0;
  Hooks first, second, third;
  first.end = [&](const TrainerState&) { ++ends; };
  second.end = [&](const TrainerState&) {
    ++ends;
    throw std::runtime_error("planted");
  };
  third.end = [&](const TrainerState& state) {
    ++ends;
    EXPECT_EQ(state.reason, StopReason::completed) << "so that it saves what the training has come to";
  };
  EXPECT_THROW(failing.trainer.fit(failing.source, {.steps = 1, .callbacks = {&failing.rate, &first, &second, &third}}),
               std::runtime_error);
  EXPECT_EQ(ends, 3);
  EXPECT_EQ(failing.trainer.fit(failing.source, {.steps = 1, .callbacks = {&failing.rate}}).steps, 1);
  EXPECT_EQ(failing.trainer.step(), 2);
}

TEST(TrainerErrors, ASourceThatCannotGoBackDoesNotHideTheError) {
  struct OneWay final : BatchSource {
    std::int64_t at = 0;
    std::optional<Example> next() override { return small_batch(0, at++ % 3); }
    std::string position() const override { return std::to_string(at); }
    void restore(const std::string&) override { throw DataError("one way"); }
  };
  Failing failing;
  OneWay source;
  Hooks hooks;
  hooks.step_begin = [](const TrainerState&, Feeds&) { throw std::logic_error("planted"); };
  EXPECT_THROW(failing.trainer.fit(source, {.steps = 1, .callbacks = {&failing.rate, &hooks}}), std::logic_error);
  const std::int64_t at = source.at;
  EXPECT_THAT(whole_error_text<DataError>([&] { failing.trainer.evaluate(source, {.steps = 1}); }),
              AllOf(HasSubstr("one way"), HasSubstr("where:   trainer_failures.cpp:")));
  EXPECT_EQ(source.at, at);
}

TEST(TrainerErrors, OfASessionWithoutValuesOrBudgetAreItsOwn) {
  SmallModel model(true);
  Session session(model.graph, small_session());
  Trainer trainer = model.trainer(session);
  LearningRate rate(model.rate, constant_rate(0.01));
  FunctionBatches source(small_batch);
  const int line = __LINE__ + 1;
  const auto fit = [&] { trainer.fit(source, {.steps = 1, .callbacks = {&rate}}); };
  EXPECT_THAT(whole_error_text<Error>(fit),
              AllOf(HasSubstr("SF-E321"), HasSubstr(text_of("where:   trainer_failures.cpp:", line))));
  EXPECT_EQ(source.position(), "0 0");
  session.initialize();
  EXPECT_EQ(trainer.fit(source, {.steps = 1, .callbacks = {&rate}}).steps, 1);
  EXPECT_THAT(whole_error_text<Error>([&] { trainer.fit(source, {.steps = 1}); }), HasSubstr("rate"));
}

TEST(TrainerErrors, OfTheSessionNameTheLineThatHasCalledTheTrainer) {
  const auto expect = [](const std::string& text, int line) {
    EXPECT_THAT(text, AllOf(HasSubstr(text_of("where:   trainer_failures.cpp:", line)), Not(HasSubstr("call:"))));
  };
  for (const bool in_sections : {false, true}) {
    SmallModel model(in_sections);
    Session session(model.graph, small_session());
    Trainer trainer = model.trainer(session);
    LearningRate rate(model.rate, constant_rate(0.01));
    FunctionBatches source(small_batch);
    int line = __LINE__ + 1;
    expect(whole_error_text<Error>([&] { trainer.fit(source, {.steps = 1, .callbacks = {&rate}}); }), line);
    line = __LINE__ + 1;
    expect(whole_error_text<Error>([&] { trainer.evaluate(source); }), line);
    line = __LINE__ + 1;
    expect(whole_error_text<Error>([&] { trainer.predict(source); }), line);
    const TrainSpec train{.source = &source, .max_steps = 1, .callbacks = {&rate}};
    line = __LINE__ + 1;
    expect(whole_error_text<Error>([&] { train_and_evaluate(trainer, train, {.source = &source}); }), line);
    session.initialize();
    engine(session).set_training_refused("planted");
    line = __LINE__ + 1;
    expect(whole_error_text<Error>([&] { trainer.fit(source, {.steps = 1, .callbacks = {&rate}}); }), line);
  }
}

TEST(TrainerErrors, LmsIsRefusedWhereSectionsAreTrained) {
  Failing failing;
  LmsCallback lms(failing.model.graph, {.swapout_threshold = 1, .swapin_groupby = 0, .swapin_ahead = 1});
  EXPECT_THAT(whole_error_text<Error>([&] {
                failing.trainer.fit(failing.source, {.steps = 1, .callbacks = {&failing.rate, &lms}});
              }),
              HasSubstr("SF-E210"));
  EXPECT_EQ(failing.model.graph.num_edits(), 0);
  EXPECT_EQ(failing.trainer.fit(failing.source, {.steps = 1, .callbacks = {&failing.rate}}).steps, 1);
}

}  // namespace
}  // namespace sectionflow

#include "train/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "compare/compare_strategies.h"
#include "data/safetensors.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/dropout.h"
#include "graph/ops/reduce.h"
#include "runtime/engine.h"
#include "swap/measure_profile.h"
#include "tests/support/log_lines.h"
#include "tests/support/random_graph.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A random model that has been trained a little.
struct Trained {
  Trained() {
    session.initialize();
    train(2);
  }
  void train(int steps) {
    for (int step = 0; step < steps; ++step) session.run(t.model.loss, batch.feeds(t.model), t.training);
  }
  TrainableRandomModel t{{.seed = 4}};  // Adam
  RandomBatch batch = random_batch(t.model, 3, 0);
  Session session{t.graph, {.device_memory = 8_MiB, .threads = 1}};
};

TEST(SaveVariables, WritesEveryVariableByItsName) {
  Trained trained;
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "model.safetensors").string();
  save_variables(trained.session, path);
  const auto file = read_safetensors(path);
  const auto variables = read_variables(trained.session);
  ASSERT_EQ(file.tensors.size(), variables.size());
  ASSERT_EQ(variables.count("adam_steps"), 1u) << "slots and counters too";
  for (const NamedTensor& tensor : file.tensors) {
    ASSERT_EQ(variables.count(tensor.name), 1u) << tensor.name;
    EXPECT_TRUE(bitwise_equal(tensor.tensor, variables.at(tensor.name))) << tensor.name;
  }
  EXPECT_EQ(folder.num_files(), 1u) << "nothing else is left behind";
}

TEST(SaveVariables, ReplacesAnOlderFile) {
  Trained trained;
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "model.safetensors").string();
  save_variables(trained.session, path);
  const std::string old = bytes_of_file(path);
  save_variables(trained.session, path);
  EXPECT_EQ(bytes_of_file(path), old) << "the same values give the same bytes";
  trained.train(1);
  save_variables(trained.session, path);
  EXPECT_NE(bytes_of_file(path), old);
}

TEST(SaveVariables, ErrorsOfSavingAndLoadingNameTheCall) {
  Trained trained;
  TrainableRandomModel other({.seed = 4});
  Session without_values(other.graph, {.device_memory = 8_MiB, .threads = 1});
  const TemporaryFolder folder;
  const std::string absent = (folder.path() / "missing" / "model.safetensors").string();
  const std::string present = (folder.path() / "model.safetensors").string();
  save_variables(trained.session, present);
  const auto place = [](int line) { return "checkpoint.cpp:" + std::to_string(line); };
  const auto where_of = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.fact("where");
    }
    return std::string("no error");
  };
  EXPECT_EQ(where_of([&] { save_variables(trained.session, absent); }), place(__LINE__));
  EXPECT_EQ(where_of([&] { load_variables(trained.session, absent); }), place(__LINE__));
  EXPECT_EQ(where_of([&] { save_variables(without_values, present); }), place(__LINE__));
  EXPECT_EQ(where_of([&] { load_variables(without_values, present); }), place(__LINE__));
  const std::string damaged = folder.file("damaged", "no tensors").string();
  EXPECT_EQ(where_of([&] { load_variables(trained.session, damaged); }), place(__LINE__));
}

TEST(SaveVariables, AndLoadingNeedValuesAndNameTheCallAndWhatToDo) {
  Trained trained;
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "model.safetensors").string();
  save_variables(trained.session, path);
  TrainableRandomModel other({.seed = 4});
  Session empty(other.graph, {.device_memory = 8_MiB, .threads = 1});
  const auto says = [](const std::string& what, const std::string& advice) {
    return ThrowsMessage<ArgumentError>(AllOf(HasSubstr("SF-E321 ArgumentError: " + what), HasSubstr(advice)));
  };
  const std::string no_values = "_variables: the session's variables have no values yet";
  EXPECT_THAT([&] { save_variables(empty, path + "2"); }, says("save" + no_values, "call session.initialize() first"));
  EXPECT_EQ(folder.num_files(), 1u);
  EXPECT_THAT([&] { load_variables(empty, path); }, says("load" + no_values, "call session.initialize() first"));
  variable("late", fill(trained.t.graph, {2}, 0));
  EXPECT_THAT([&] { save_variables(trained.session, path); },
              says("save_variables: variable 'late' was made after session.initialize()", "make all variables"));
}

TEST(LoadVariables, EveryRefusalOfAFileSaysWhatToDo) {
  Trained trained;
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "model.safetensors").string();
  save_variables(trained.session, path);
  const std::string whole = bytes_of_file(path);
  const auto refused = [&](const std::filesystem::path& file) {
    EXPECT_THAT([&] { load_variables(trained.session, file.string()); }, ThrowsMessage<DataError>(HasSubstr("hint: ")))
        << file;
  };
  refused(folder.path());
  refused(folder.path() / "missing");
  refused(folder.file("empty", ""));
  refused(folder.file("text", "no tensors at all"));
  refused(folder.file("half", std::string_view(whole).substr(0, whole.size() / 2)));
  refused(folder.file("header", std::string_view(whole).substr(0, 40)));
}

TEST(SaveVariables, AFolderThatIsMissingIsADataErrorAndHarmsNothing) {
  Trained trained;
  const TemporaryFolder folder;
  EXPECT_THROW(save_variables(trained.session, (folder.path() / "missing" / "model.safetensors").string()), DataError);
  EXPECT_EQ(folder.num_files(), 0u);
  EXPECT_NO_THROW(trained.train(1));
}

TEST(LoadVariables, GivesBackEveryBitAndTrainingGoesOnAlike) {
  Trained saved, other;
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "model.safetensors").string();
  save_variables(saved.session, path);
  other.train(3);
  load_variables(other.session, path);
  EXPECT_EQ(first_difference({read_variables(saved.session), {}}, {read_variables(other.session), {}}), "");
}

TEST(LoadVariables, AFileOfAnotherModelIsRefusedWithItsFirstDifferencesAndChangesNothing) {
  Trained trained;
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "model.safetensors").string();
  std::vector<NamedTensor> tensors;
  for (auto& [name, tensor] : read_variables(trained.session)) tensors.push_back({name, std::move(tensor)});
  const std::string missing = tensors.front().name, reshaped = tensors.back().name;
  tensors.erase(tensors.begin());
  tensors.back().tensor = HostTensor(Dtype::f32, {7, 7});
  tensors.push_back({"stranger", HostTensor(Dtype::f32, {2})});
  write_safetensors(path, views_of(tensors));
  const TrainingState before{read_variables(trained.session), {}};
  EXPECT_THAT([&] { load_variables(trained.session, path); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("3 differences"), HasSubstr("'" + missing + "' is missing"),
                                             HasSubstr("'" + reshaped + "' is f32[7,7]; wanted"),
                                             HasSubstr("'stranger' is no variable"), HasSubstr("hint:"))));
  EXPECT_THROW(load_variables(trained.session, (folder.path() / "nothing").string()), DataError);
  EXPECT_EQ(first_difference(before, {read_variables(trained.session), {}}), "");
}

TEST(LoadVariables, GivesBackTheProfileThatWasSavedWithThem) {
  Trained saved, other;
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "model.safetensors").string();
  save_variables(saved.session, path);
  EXPECT_EQ(load_variables(other.session, path).profile, std::nullopt);
  const Profile profile =
      measure_profile(saved.session, {saved.t.model.loss}, saved.batch.types(saved.t.model), saved.t.training);
  ASSERT_GT(profile.kernel_seconds.size(), 5U);
  save_variables(saved.session, path, {.profile = profile});
  EXPECT_EQ(load_variables(other.session, path).profile, profile);
  EXPECT_EQ(first_difference({read_variables(saved.session), {}}, {read_variables(other.session), {}}), "");
}

/// A trained model, and the tensors that it had before its last step.
struct Damage {
  Damage() {
    for (auto& [name, tensor] : read_variables(trained.session)) tensors.push_back({name, std::move(tensor)});
    trained.train(1);
    after = {read_variables(trained.session), {}};
  }
  void expect_nothing_changed() {
    EXPECT_EQ(first_difference(after, {read_variables(trained.session), {}}), "");
    EXPECT_EQ(trained.session.algorithm_choices(), AlgorithmChoices{});
  }
  /// A file whose metadata is not what `good` is.
  void expect_refused(const std::string& key, const std::string& good) {
    for (const std::string& damaged : {std::string(), std::string("{}"), std::string(10'000, '['),
                                       good.substr(0, good.size() / 2), "[" + good + "]"}) {
      write_safetensors(path, views_of(tensors), {{key, damaged}});
      EXPECT_THAT([&] { load_variables(trained.session, path); },
                  ThrowsMessage<DataError>(AllOf(HasSubstr("the " + key + " in '" + path), HasSubstr("DataError"))));
      expect_nothing_changed();
    }
  }

  Trained trained;
  TemporaryFolder folder;
  std::string path = (folder.path() / "model.safetensors").string();
  std::vector<NamedTensor> tensors;
  TrainingState after;
};

TEST(LoadVariables, ADamagedProfileIsRefusedAndChangesNothing) {
  Damage file;
  const std::string good = Profile::nominal().json();
  file.expect_refused("profile", good);
  write_safetensors(file.path, views_of(file.tensors), {{"profile", good}, {"somebody's", "else"}});
  EXPECT_EQ(load_variables(file.trained.session, file.path).profile, Profile::nominal());
  for (const NamedTensor& tensor : file.tensors) {
    EXPECT_TRUE(bitwise_equal(tensor.tensor, read_variables(file.trained.session).at(tensor.name))) << tensor.name;
  }
}

TEST(LoadVariables, GivesBackTheAlgorithmsThatTheSessionRan) {
  Trained saved, other;
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "model.safetensors").string();
  save_variables(saved.session, path);
  EXPECT_EQ(read_safetensors(path).metadata.count("algorithms"), 0u) << "on the CPU there is nothing to choose";
  const AlgorithmChoices choices{{{"a library on some GPU: a product", "1 2 3"}, {"another", "none"}}};
  saved.session.use_algorithms(choices);
  EXPECT_EQ(saved.session.algorithm_choices(), choices);
  save_variables(saved.session, path);
  {
    const LogLines log;
    load_variables(other.session, path);
    EXPECT_THAT(log.lines, ElementsAre(AllOf(HasSubstr("2 of 2 stored algorithms are for other GPUs or libraries"),
                                             HasSubstr("not used here"))));
  }
  EXPECT_EQ(other.session.algorithm_choices(), choices);
  // They are passed on by a process that has no use for them.
  const std::string again = (folder.path() / "again.safetensors").string();
  save_variables(other.session, again);
  EXPECT_EQ(bytes_of_file(again), bytes_of_file(path));
}

TEST(LoadVariables, AlgorithmsThatTheProcessRunsStayAndAWarningSaysSo) {
  /// A library with one algorithm.
  class Library final : public AlgorithmChooser {
   public:
    bool offers(const std::string& algorithm) override { return algorithm == "ours"; }
    std::string choose() override { return "ours"; }
  };
  Trained saved, other;
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "model.safetensors").string();
  const std::string problem = "LoadVariables.AlgorithmsThatTheProcessRunsStay";
  save_variables(saved.session, path);
  std::vector<NamedTensor> tensors = read_safetensors(path).tensors;
  write_safetensors(path, views_of(tensors), {{"algorithms", AlgorithmChoices{{{problem, "theirs"}}}.json()}});
  Library library;
  EXPECT_EQ(engine(other.session).workbench().device.choices().algorithm_for(problem, library), "ours");
  const LogLines log;
  load_variables(other.session, path);
  EXPECT_THAT(log.lines, Contains(AllOf(HasSubstr("1 of 1 stored algorithms are not used"), HasSubstr(problem))));
  EXPECT_EQ(other.session.algorithm_choices(), (AlgorithmChoices{{{problem, "ours"}}}));
  EXPECT_EQ(first_difference({read_variables(saved.session), {}}, {read_variables(other.session), {}}), "");
}

TEST(LoadVariables, DamagedAlgorithmsAreRefusedAndChangeNothing) {
  Damage file;
  const std::string good = AlgorithmChoices{{{"problem", "algorithm"}}}.json();
  file.expect_refused("algorithms", good);
  // Nor do good ones beside variables that do not fit.
  file.tensors.pop_back();
  write_safetensors(file.path, views_of(file.tensors), {{"algorithms", good}});
  EXPECT_THROW(load_variables(file.trained.session, file.path), DataError);
  file.expect_nothing_changed();
}

/// A dense layer behind a dropout: each cycle draws other elements.
struct WithDropout {
  WithDropout() { session.initialize(); }
  void train(int cycles) {
    for (int i = 0; i < cycles; ++i) session.run({{x, data}, {is_training, true}}, training);
  }
  TrainingState state() { return {read_variables(session), {}}; }

  Graph graph;
  Value x = placeholder(graph, "x", {8, 16});
  Value is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  RunOptions training{.targets =
                          minimize(Adam{.learning_rate = 1e-1F},
                                   mean(dense(dropout(x, is_training, {.rate = 0.5F}), {.features = 3}) * 2.0F))};
  HostTensor data = [] {
    HostTensor ones(Dtype::f32, {8, 16});
    for (float& value : ones.values<float>()) value = 1;
    return ones;
  }();
  Session session{graph, {.device_memory = 1_MiB, .threads = 1, .seed = 9}};
};

TEST(LoadVariables, TrainingWithDropoutGoesOnAsIfItHadNeverStopped) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "model.safetensors").string();
  WithDropout whole, first, second;
  whole.train(5);
  first.train(2);
  save_variables(first.session, path);
  load_variables(second.session, path);
  EXPECT_EQ(second.session.completed_cycles(), 2U);
  second.train(3);
  EXPECT_EQ(first_difference(whole.state(), second.state()), "");
  // The same variables by another count draw other elements.
  load_variables(first.session, path);
  first.session.set_completed_cycles(0);
  first.train(3);
  EXPECT_NE(first_difference(whole.state(), first.state()), "");
}

TEST(LoadVariables, AFileThatTellsNoCyclesLeavesTheCount) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "model.safetensors").string();
  WithDropout saved, other;
  saved.train(2);
  save_variables(saved.session, path);
  write_safetensors(path, views_of(read_safetensors(path).tensors), {{"format", "sectionflow"}});
  other.train(1);
  const LogLines log;
  load_variables(other.session, path);
  EXPECT_EQ(other.session.completed_cycles(), 1U);
  EXPECT_EQ(first_difference(saved.state(), other.state()), "");
  EXPECT_THAT(log.lines, Contains(AllOf(HasSubstr(path), HasSubstr("the session's count stays at 1"))));
}

TEST(LoadVariables, ACountThatIsNoNumberIsRefusedAndChangesNothing) {
  Damage file;
  const std::uint64_t before = file.trained.session.completed_cycles();
  for (const char* wrong : {"", "-1", "3 cycles", "0x10", " 4", "18446744073709551616"}) {
    write_safetensors(file.path, views_of(file.tensors), {{"completed_cycles", wrong}});
    EXPECT_THAT(
        [&] { load_variables(file.trained.session, file.path); },
        ThrowsMessage<DataError>(AllOf(HasSubstr("the completed_cycles in '" + file.path), HasSubstr("no number"))));
    file.expect_nothing_changed();
    EXPECT_EQ(file.trained.session.completed_cycles(), before);
  }
}

TEST(LoadVariables, AFlippedBitOfATensorIsFoundAndChangesNothing) {
  Trained trained;
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "model.safetensors").string();
  save_variables(trained.session, path);
  trained.train(1);
  const TrainingState before{read_variables(trained.session), {}};
  const std::string good = bytes_of_file(path);
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, good.data(), sizeof(header_bytes));
  // The last tensor of the file too: all are looked at before any is written.
  for (std::size_t at = 8 + header_bytes; at < good.size(); at += 97) {
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    const std::string file = folder.file("damaged.safetensors", damaged).string();
    EXPECT_THAT(
        [&] { load_variables(trained.session, file); },
        ThrowsMessage<DataError>(AllOf(HasSubstr("'" + file + "'"), HasSubstr("tensor "), HasSubstr("damaged"))));
    EXPECT_EQ(first_difference(before, {read_variables(trained.session), {}}), "");
  }
  EXPECT_EQ(trained.session.completed_cycles(), 3U);
  load_variables(trained.session, path);
  EXPECT_EQ(trained.session.completed_cycles(), 2U);
}

TEST(LoadVariables, NeedsInitialisedVariables) {
  Trained trained;
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "model.safetensors").string();
  save_variables(trained.session, path);
  TrainableRandomModel t({.seed = 4});
  Session session(t.graph, {.device_memory = 8_MiB, .threads = 1});
  EXPECT_THROW(load_variables(session, path), ArgumentError);
}

}  // namespace
}  // namespace sectionflow

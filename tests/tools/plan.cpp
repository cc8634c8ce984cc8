// `sectionflow plan` and `compare`, and what is common to all sub-commands.

#include <algorithm>
#include <filesystem>
#include <vector>

#include "data/npy.h"
#include "examples/models/zoo.h"
#include "graph/graph_file.h"
#include "swap/profile.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/run_tool.h"

namespace sectionflow::tools {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

const std::string kSmall = " --model mnist_cnn --width 4 --batch 8 --threads 1";

TEST(Commands, EachAnswersHelpAndDoesNothingElse) {
  EXPECT_THAT(run_tool("--help").text,
              AllOf(HasSubstr("plan"), HasSubstr("compare"), HasSubstr("train"), HasSubstr("inspect")));
  for (const std::string command : {"plan", "compare", "train", "scale", "inspect", "convert"}) {
    const Outcome outcome = run_tool(command + " --help");
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.text, AllOf(HasSubstr("--json"), HasSubstr("Usage: sectionflow " + command))) << command;
  }
}

TEST(Commands, WordsThatAreNoneAreRefusedWithTheNearest) {
  expect_refused("", HasSubstr("which sub-command? plan, compare"));
  expect_refused("plam", HasSubstr("'plam' is no sub-command; did you mean 'plan'?"));
  expect_refused("plan --bacth 3", HasSubstr("'--bacth' is no option; did you mean '--batch'?"));
  expect_refused("plan --bacth=3", HasSubstr("did you mean '--batch'?"));
  expect_refused("plan --replan", HasSubstr("'--replan' is an option of 'train'\n"));
  expect_refused("train --save-plan=x", HasSubstr("'--save-plan' is an option of 'plan'\n"));
  expect_refused("inspect --profile x",
                 HasSubstr("'--profile' is an option of 'plan', 'compare', 'train' and 'scale'\n"));
  expect_refused("explain", HasSubstr("'explain' is no sub-command; 'plan --explain' does that"));
  expect_refused("inspect a b", HasSubstr("'b' is no argument that is wanted"));
  expect_refused("inspect", HasSubstr("file is required"));
  expect_refused("plan --batch many", HasSubstr("many"));
  expect_refused("plan --model mnist_ressnet", HasSubstr("did you mean 'mnist_resnet'?"));
  expect_refused("compare --model resnet5O", HasSubstr("did you mean 'resnet50'?"));
  expect_refused("train --model gtp", HasSubstr("did you mean 'gpt'?"));
  expect_refused("plan --strategy sectoins:4", HasSubstr("did you mean 'sections:4'?"));
  expect_refused("plan --device tpu", HasSubstr("'tpu' is no device"));
  expect_refused("plan --device-memory 45", HasSubstr("45"));
  expect_refused("plan --json /dev/null/file", HasSubstr("SF-E400"));
  expect_refused("plan --dot /dev/null/file", HasSubstr("DataError: --dot"));
  expect_refused("plan --batch 0", HasSubstr("--batch: '0'; wanted a whole number from 1"));
}

TEST(Commands, TheVersionIsTold) {
  const Outcome outcome = run_tool("--version");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.text, testing::MatchesRegex("sectionflow [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(Commands, ErrorsNameNoLineOfTheProgramsOwnSource) {
  const TemporaryFolder folder;
  const std::string at = folder.path().string();
  const std::vector<std::string> calls = {"train --statistics /dev/null/a" + kSmall,
                                          "train --steps 1 --device-memory 4KiB" + kSmall,
                                          "plan --graph " + at + "/absent",
                                          "plan --model mnist_cnn --sequence 4",
                                          "compare --strategies sections:99" + kSmall,
                                          "train --data mnist:" + at + kSmall};
  for (const std::string& refused : calls) {
    expect_refused(refused, AllOf(HasSubstr("SF-E"), Not(HasSubstr(".cpp")), Not(HasSubstr(".h:"))));
  }
  const Outcome misfit = run_tool("plan --device-memory 4KiB" + kSmall);
  EXPECT_EQ(misfit.status, 1);
  EXPECT_THAT(misfit.text, Not(HasSubstr(".cpp")));
}

TEST(Commands, HintsNameOptionsAndNoCallsOfTheLibrary) {
  const Outcome whole = run_tool("plan --model mnist_resnet --batch 20 --device-memory 8MiB");
  EXPECT_THAT(whole.text, AllOf(HasSubstr("--strategy auto"), Not(HasSubstr("fit_budget(session)"))));
  const Outcome cuda = run_tool("plan --model mnist_cnn --device cuda");
  if (cuda.status != 0) {
    EXPECT_THAT(cuda.text, AllOf(HasSubstr("--device"), Not(HasSubstr("cpu()"))));
  }
}

TEST(Commands, ErrorsCallOptionsByTheirNames) {
  const testing::Matcher<std::string> has_no_cpp = Not(AnyOf(HasSubstr("device_memory"), HasSubstr("host_memory"),
                                                             HasSubstr("SessionOptions::"), HasSubstr("fit_budget(")));
  for (const std::string strategy : {"whole", "sections:2", "auto", "auto:recompute", "auto:swap", "swap"}) {
    const Outcome train = run_tool("train --steps 1 --device-memory 4KiB --strategy " + strategy + kSmall);
    EXPECT_EQ(train.status, 2);
    EXPECT_THAT(train.text, AllOf(HasSubstr("minimum: --device-memory of "), has_no_cpp)) << strategy;
    const Outcome plan = run_tool("plan --device-memory 4KiB --strategy " + strategy + kSmall);
    EXPECT_EQ(plan.status, 1);
    EXPECT_THAT(plan.text, has_no_cpp) << strategy;
  }
}

TEST(Commands, WhatIsWrittenReplacesNothingElseThatIsNamed) {
  const TemporaryFolder folder;
  const std::string at = folder.path().string() + "/";
  expect_refused("plan --dot " + at + "x --trace " + at + "x" + kSmall,
                 AllOf(HasSubstr("--trace"), HasSubstr("is that of --dot too")));
  write_npy(at + "a.npy", HostTensor(Dtype::f32, {2}));
  const std::string before = bytes_of_file(at + "a.npy");
  expect_refused("inspect " + at + "a.npy --json " + at + "a.npy", HasSubstr("is that of FILE too"));
  expect_refused("convert npy:" + at + "a.npy safetensors:" + at + "o.st --json " + at + "o.st",
                 HasSubstr("is that of TO too"));
  expect_refused(
      "train --model mnist_cnn --width 2 --steps 1 --data synthetic --json " + at + "x --statistics " + at + "x",
      HasSubstr("is that of --statistics too"));
  EXPECT_EQ(bytes_of_file(at + "a.npy"), before);
  EXPECT_FALSE(std::filesystem::exists(at + "x"));
}

TEST(Commands, ErrorsLeaveTheWordsOfTheUserAsTheyAre) {
  EXPECT_THAT(run_tool("inspect host_memory/SessionOptions::disk.npy").text,
              AllOf(HasSubstr("'host_memory/SessionOptions::disk.npy'"), Not(HasSubstr("--host-memory"))));
  for (const std::string path : {"it's host_memory dir", "the dogs' host_memory FitOptions::validation",
                                 "q host_memory's FitOptions::validation", "'host_memory' 'x'y'"}) {
    EXPECT_THAT(run_tool("inspect \"" + path + ".npy\"").text, HasSubstr("'" + path + ".npy'"));
    EXPECT_THAT(run_tool("train" + kSmall + " --data \"tfrecord:" + path + "\"").text, HasSubstr("'" + path + "'"));
  }
  const std::string word(50'000, 'a');
  expect_refused("train --model " + word, HasSubstr(word));
}

TEST(Commands, TheHelpOfASizeSaysWhichModelsHaveIt) {
  EXPECT_THAT(run_tool("train --help").text, AllOf(HasSubstr("of gpt, llama, bert_base, lstm_lm, gru_lm alone"),
                                                   HasSubstr("of all but mnist_resnet, gpt")));
  expect_refused("train --model mnist_cnn --sequence 4",
                 AllOf(HasSubstr("--sequence 4: mnist_cnn has no such size; it is of gpt, llama, bert_base"),
                       HasSubstr("leave it out")));
}

TEST(Plan, TheSmallestBudgetOfAStrategyThatLooksForOneIsOneThatFits) {
  const std::string plan = "plan --model mnist_cnn --width 4 --batch 8 --threads 1 --strategy auto:recompute";
  const auto json = json_of_tool(plan);
  const std::string least = json.at("smallest_budget_bytes").dump();
  EXPECT_TRUE(json_of_tool(plan + " --device-memory " + least).at("fits").get<bool>());
}

TEST(Commands, NumbersOfAModelAreWholeAndAboveZero) {
  for (const std::string name : {"image", "classes", "width", "layers", "heads", "sequence", "vocabulary"}) {
    for (const std::string number : {"0", "-1", "2.5", "few"}) {
      expect_refused("plan --" + name + " " + number, AllOf(HasSubstr("--" + name), HasSubstr("'" + number + "'"),
                                                            HasSubstr("wanted a whole number from 1 to 2^63-1")));
    }
  }
}

TEST(Commands, WhatIsProposedCanBeAskedForAsItStands) {
  expect_refused("plan --strategy sectoins", HasSubstr("did you mean 'sections:blocks'?"));
  expect_refused("plan --strategy sections:block", HasSubstr("did you mean 'blocks'?"));
  expect_refused("plan --optimizer adma", HasSubstr("did you mean 'adam'?"));
  expect_refused("convert images:pictures", HasSubstr("tfrecord:FOLDER"));
  EXPECT_EQ(run_tool("plan --strategy sections:blocks --optimizer adam" + kSmall).status, 0);
}

TEST(Plan, TellsMemoryOfEachSectionAndTheSmallestBudget) {
  const auto json = json_of_tool("plan --strategy sections:2" + kSmall);
  EXPECT_EQ(json.at("model"), "mnist_cnn");
  EXPECT_TRUE(json.at("fits").get<bool>());
  EXPECT_FALSE(json.contains("misfit"));
  const std::size_t peak = json.at("plan").at("planned_peak_bytes");
  EXPECT_EQ(json.at("smallest_budget_bytes").get<std::size_t>(), peak) << "nothing adapts to budgets here";
  EXPECT_GT(json.at("plan").at("recomputed_operations").get<int>(), 0);
  std::size_t largest = 0;
  for (const auto& section : json.at("sections")) {
    EXPECT_LE(section.at("held_bytes").get<std::size_t>(), peak);
    largest = std::max(largest, section.at("peak_bytes").get<std::size_t>());
  }
  EXPECT_GE(json.at("sections").size(), 2U);
  EXPECT_GT(largest, 0U);
  EXPECT_LE(largest, peak);
}

TEST(Plan, LeavesOutTheSmallestBudgetWhereThatIsAsked) {
  const Outcome outcome = run_tool("plan --no-smallest-budget --json -" + kSmall);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("planned_peak_bytes"), Not(HasSubstr("smallest_budget"))));
  EXPECT_THAT(run_tool("plan --no-smallest-budget --device-memory 4KiB" + kSmall).text,
              AllOf(HasSubstr("does not fit"), Not(HasSubstr("smallest budget of device memory"))));
}

TEST(Plan, TheSmallestBudgetFitsAndAByteLessDoesNot) {
  for (const std::string strategy : {"whole", "sections:2", "swap", "sections+swap:2"}) {
    const std::string plan = "plan --strategy " + strategy + kSmall;
    const auto json = json_of_tool(plan);
    if (!json.at("smallest_budget_is_exact").get<bool>()) continue;
    const std::size_t smallest = json.at("smallest_budget_bytes");
    EXPECT_TRUE(json_of_tool(plan + " --device-memory " + std::to_string(smallest) + "B").at("fits").get<bool>())
        << strategy;
    const auto misfit = json_of_tool(plan + " --device-memory " + std::to_string(smallest - 1) + "B", 1);
    EXPECT_FALSE(misfit.at("fits").get<bool>()) << strategy;
    EXPECT_THAT(misfit.at("misfit").get<std::string>(), HasSubstr("BudgetError")) << strategy;
  }
}

TEST(Plan, WhatDoesNotFitIsToldInWordsAndByTheExitStatus) {
  const Outcome outcome = run_tool("plan --device-memory 4KiB" + kSmall);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("does not fit"), HasSubstr("smallest budget of device memory")));
  EXPECT_EQ(run_tool("plan --device-memory 100%" + kSmall).status, 0);
  EXPECT_EQ(run_tool("plan --device-memory 20%" + kSmall).status, 1);
}

TEST(Plan, WhereHostMemoryIsTooSmallForWhatIsOffloadedItIsNamed) {
  const Outcome outcome = run_tool(
      "plan --model mnist_resnet --batch 8 --threads 1 --strategy auto:swap --device-memory 8MiB --host-memory 1MiB");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(
      outcome.text,
      AllOf(HasSubstr("give more --host-memory, which has no room for what would be offloaded, or a disk (--disk)"),
            Not(HasSubstr("be computed again too"))));
}

TEST(Plan, ALinkIsSoMuchASecondWhetherThatIsSaidOrNot) {
  const std::string plan = "plan --copy-threads" + kSmall + " --link ";
  EXPECT_EQ(json_of_tool(plan + "1GiB/s"), json_of_tool(plan + "1GiB"));
  EXPECT_EQ(json_of_tool(plan + "1.5GB/s"), json_of_tool(plan + "1500000000"));
  EXPECT_EQ(json_of_tool(plan + "1.5GB"), json_of_tool(plan + "1500000000"));
  expect_refused(plan + "1GiB/h", HasSubstr("'1GiB/h'"));
}

TEST(Plan, LargeBatchesTouchNoData) {
  const auto json = json_of_tool("plan --model resnet18 --batch 1000000 --threads 1 --device-memory 1GiB", 1);
  EXPECT_GT(json.at("plan").at("planned_peak_bytes").get<double>(), 1e12);
}

TEST(Plan, WithMetricsWhatFitsIsWhatATrainingFits) {
  const std::string strategy = " --strategy whole" + kSmall;
  const std::size_t smallest = json_of_tool("plan --metrics" + strategy).at("smallest_budget_bytes");
  EXPECT_GT(smallest, json_of_tool("plan" + strategy).at("smallest_budget_bytes").get<std::size_t>());
  const std::string train = "train --data synthetic --steps 1" + strategy + " --device-memory ";
  EXPECT_EQ(run_tool(train + std::to_string(smallest)).status, 0);
  expect_refused(train + std::to_string(smallest - 1), HasSubstr("SF-E101"));
  expect_refused("plan --metrics --graph x", HasSubstr("--metrics is of models"));
}

TEST(Plan, ABatchThatIsTooLargeToBeCountedIsNamed) {
  expect_refused("plan --model mnist_cnn --batch 99999999999999", HasSubstr("--batch 99999999999999\n"));
}

TEST(Plan, PicturesAreFiles) {
  const TemporaryFolder folder;
  const std::string at = folder.path().string();
  const Outcome outcome =
      run_tool("plan --strategy sections:2 --dot " + at + "/a.dot --trace " + at + "/a.json --memory-snapshot " + at +
               "/a.pickle --json " + at + "/plan.json" + kSmall);
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("fits this machine"));
  EXPECT_THAT(bytes_of_file(folder.path() / "a.dot"), HasSubstr("digraph"));
  EXPECT_FALSE(nlohmann::json::parse(bytes_of_file(folder.path() / "a.json")).empty());
  EXPECT_FALSE(bytes_of_file(folder.path() / "a.pickle").empty());
  EXPECT_TRUE(nlohmann::json::parse(bytes_of_file(folder.path() / "plan.json")).at("fits").get<bool>());
}

TEST(Plan, ExplainsItselfInWordsAndNumbers) {
  const std::string plan = "plan --strategy sections:2 --explain --frontier 3" + kSmall;
  const Outcome outcome = run_tool(plan);
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("what becomes of it"), HasSubstr("the peak, "), HasSubstr("computed again"),
                                  HasSubstr("more would save"), HasSubstr("fit_budget in other budgets:")));
  const auto json = json_of_tool(plan);
  const auto& explanation = json.at("explanation");
  EXPECT_EQ(explanation.at("peak").at("peak_bytes"), json.at("plan").at("planned_peak_bytes"));
  std::size_t sum = explanation.at("peak").at("variables_bytes").get<std::size_t>() +
                    explanation.at("peak").at("unused_bytes").get<std::size_t>();
  for (const auto& part : explanation.at("peak").at("parts")) sum += part.at("bytes").get<std::size_t>();
  EXPECT_EQ(sum, json.at("plan").at("planned_peak_bytes").get<std::size_t>());
  EXPECT_TRUE(explanation.contains("price"));
  EXPECT_FALSE(explanation.contains("frontier")) << "it stands beside";
  EXPECT_EQ(json.at("frontier").at("points").size(), 3U);
  EXPECT_FALSE(json_of_tool("plan --strategy sections:2" + kSmall).contains("explanation"));
  expect_refused("plan --frontier 1" + kSmall, HasSubstr("--frontier: '1'; wanted a whole number from 2 to 1000"));
  expect_refused("plan --strategy lms:3/1/1/0 --frontier 3" + kSmall, HasSubstr("--frontier: the graph says itself"));
}

TEST(Plan, IsExplainedByTheProfileThatIsGiven) {
  const TemporaryFolder folder;
  const auto whole_seconds = [&](const std::string& profile) {
    const std::string plan = "plan --strategy sections:2 --frontier 2" + kSmall;
    return json_of_tool(plan + profile).at("frontier").at("whole_seconds").get<double>();
  };
  const std::string slow = folder.file("slow", Profile{.flops = 1e6, .memory_bandwidth = 1e6}.json()).string();
  EXPECT_GT(whole_seconds(" --profile " + slow), 10 * whole_seconds(""));
  expect_refused("plan --explain --profile " + folder.file("none", "{}").string() + kSmall, HasSubstr("SF-E"));
}

TEST(Plan, AGraphOfAFileIsPlannedAsTheModelThatItIsOf) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "graph.json").string();
  {
    Graph graph;
    GraphSectionManager manager(graph);
    zoo_model("mnist_cnn", {.cut = {2}, .optimizer = Adam{.learning_rate = 1e-4F}, .width = 4}).build(graph, manager);
    save_graph(graph, file);
  }
  for (const auto& [of_graph, of_model] : {std::pair("sections:file", "sections:2"), std::pair("whole", "whole")}) {
    const auto graph = json_of_tool("plan --graph " + file + " --batch 8 --threads 1 --strategy " + of_graph);
    const auto model = json_of_tool(std::string("plan --strategy ") + of_model + kSmall);
    EXPECT_EQ(graph.at("plan").at("planned_peak_bytes"), model.at("plan").at("planned_peak_bytes")) << of_graph;
  }
  expect_refused("plan --graph " + file + " --strategy sections:4", HasSubstr("a graph is cut as its file says"));
  expect_refused("plan --graph " + file + " --shape imges=1x2", HasSubstr("did you mean 'images'?"));
  expect_refused("plan --graph " + file + " --shape images", HasSubstr("wanted NAME=SIZExSIZEx"));
  expect_refused("plan --graph " + file + " --shape images=4x", HasSubstr("wanted NAME=SIZExSIZEx"));
  expect_refused("plan --graph " + file + " --fetch nosuch", HasSubstr("nosuch"));
  expect_refused("plan --graph " + file + "x", HasSubstr("DataError"));
  expect_refused("plan --fetch loss" + kSmall, HasSubstr("is for graphs of files"));
}

TEST(Plan, TheMinimumThatANumberOfCutsTellsDoesAndIsTheLeast) {
  for (const std::string cuts : {" --strategy cuts:2", " --strategy cuts:3"}) {
    SCOPED_TRACE(cuts);
    const auto refused = json_of_tool("plan --device-memory 1MiB" + cuts + kSmall, 1);
    const std::size_t least = refused.at("smallest_budget_bytes");
    EXPECT_THAT(refused.at("misfit").get<std::string>(), HasSubstr(std::to_string(least)));
    EXPECT_TRUE(refused.at("smallest_budget_is_enough").get<bool>());
    const auto in = [&](std::size_t bytes, int status) {
      return json_of_tool("plan --device-memory " + std::to_string(bytes) + "B" + cuts + kSmall, status);
    };
    EXPECT_EQ(in(least, 0).at("plan").at("planned_peak_bytes"), least);
    EXPECT_FALSE(in(least - 1, 1).at("fits").get<bool>());
  }
}

TEST(Plan, WhereLmsFindsNoSettingAnOptionOfThisProgramIsAdvised) {
  const Outcome outcome = run_tool("plan --strategy lms:auto --device-memory 1MiB" + kSmall);
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("SF-E113"), HasSubstr("device-memory"), Not(HasSubstr("autotune"))));
}

TEST(Commands, ThatTrainAModelTakeTheSameBatchWhereNoneIsSaid) {
  for (const std::string command : {"plan", "compare", "train"}) {
    EXPECT_THAT(run_tool(command + " --help").text, testing::ContainsRegex("--batch [^\n]*=100")) << command;
  }
}

TEST(Compare, WithoutStrategiesThoseAreComparedThatTheModelCanHave) {
  const auto names_of = [](const std::string& model) {
    std::vector<std::string> names;
    const auto json = json_of_tool("compare --steps 2 --width 2 --batch 2 --threads 1 --model " + model);
    for (const auto& strategy : json.at("strategies")) names.push_back(strategy.at("name"));
    return names;
  };
  EXPECT_EQ(names_of("mnist_cnn"), (std::vector<std::string>{"whole", "sections:2", "sections:blocks"}));
  EXPECT_EQ(names_of("resnet18 --image 32"),
            (std::vector<std::string>{"whole", "sections:2", "sections:4", "sections:blocks"}));
  expect_refused("compare --steps 2 --strategies sections:4" + kSmall, HasSubstr("cannot be cut into 4 sections"));
}

TEST(Compare, TellsWhetherTheBitsAreTheSame) {
  const auto json = json_of_tool("compare --steps 2 --strategies whole,sections:2" + kSmall);
  EXPECT_EQ(json.at("strategies").size(), 2U);
  for (const auto& strategy : json.at("strategies")) EXPECT_TRUE(strategy.at("identical").get<bool>());
  const Outcome outcome = run_tool("compare --steps 2 --strategies sections:2" + kSmall);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("sections:2"), Not(HasSubstr("Error"))));
}

}  // namespace
}  // namespace sectionflow::tools

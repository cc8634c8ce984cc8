// A character-level gpt: trained in four sections under a budget that the whole graph does not fit, ended and started
// again, asked for text, and fine-tuned in its last block alone.
//
//   15_char_gpt --run runs/gpt --steps 5000
//
// It reads the licences that every Debian machine has, or the texts of --text. Without --run it shows, in a folder that
// goes at its end, that the bytes are those of training the whole graph without an interruption.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "examples/models/command_line.h"
#include "examples/models/gpt.h"
#include "examples/temporary_folder.h"
#include "sectionflow.h"

namespace {

using namespace sectionflow;
namespace fs = std::filesystem;

constexpr const char* kLicenceFolder = "/usr/share/common-licenses";
constexpr int kNoTexts = 77;
constexpr std::int64_t kBatch = 8, kWindow = 64;  // characters

struct Arguments {
  std::vector<std::string> texts{};
  std::string run{}, prompt = "This License ";
  std::int64_t steps = 1000, characters = 300;
};

std::vector<fs::path> licences() {
  std::vector<fs::path> files;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(kLicenceFolder, absent)) {
    if (entry.is_regular_file() && !entry.is_symlink()) files.push_back(entry.path());  // GPL is a link to GPL-3
  }
  SF_CHECK(!files.empty(), DataError, "'", kLicenceFolder, "' has no texts to learn from",
           hint("name files of yours with --text"));
  std::sort(files.begin(), files.end());
  return files;
}

// docs/training.md shows the lines from here on.
/// Of a text the first eight tenths to learn from, the ninth to fine-tune with, and the last to test with.
struct Texts {
  explicit Texts(const std::vector<fs::path>& files)
      : windows(text_source(files, Vocabulary::of_bytes(), {.window = kWindow})),
        tenth(windows->size() / 10),
        train(part(0, 8)),
        tune(part(8, 1)),
        test(part(9, 1)) {}

  Dataset part(std::int64_t first, std::int64_t count) const {
    return Dataset::from(windows)
        .skip(first * tenth)
        .take(count * tenth)
        .shuffle({.seed = 1})
        .batch({.size = kBatch})
        .prefetch();
  }

  std::shared_ptr<const IndexedSource> windows;  // {"inputs": i32 [kWindow], "targets": i32 [kWindow]}
  std::int64_t tenth;
  Dataset train, tune, test;
};

/// In how many sections, in how much memory, and whether all of it is trained or the last block alone.
struct How {
  int sections = 4;
  std::size_t device_memory = 6_MiB;
  bool last_block_alone = false;
};

struct Model {
  explicit Model(const How& how = {})
      : rate(placeholder(graph, "learning_rate", {})),
        net(build(how)),
        session(graph, {.device_memory = how.device_memory, .seed = 1}),
        trainer(session, manager, options()) {
    session.initialize();
  }

  Gpt build(const How& how) {
    const Adam adam{.learning_rate = rate};
    std::vector<ParameterGroup> groups = {{.optimizer = adam}};
    if (how.last_block_alone) {
      groups = {{.variables = {"block_3/*", "final_norm/*"}, .optimizer = adam}, {.frozen = true}};
    }
    return build_gpt(graph, manager,
                     {.layers = 4,
                      .width = 64,
                      .heads = 2,
                      .sequence = kWindow,
                      .vocabulary = Vocabulary::of_bytes().size(),
                      .tied_embeddings = false,
                      .cut = {how.sections},
                      .groups = groups});
  }
  TrainerOptions options() const {
    return {.loss = net.loss,
            .metrics = {{"perplexity", perplexity(net.loss)}},
            .inputs = {{"inputs", net.tokens}},
            .training_feeds = {{net.is_training, true}},
            .evaluation_feeds = {{net.is_training, false}}};
  }

  Graph graph;
  GraphSectionManager manager{graph};
  Value rate;
  Gpt net;
  Session session;
  Trainer trainer;
};

/// Begins a training in a folder, or goes on with the one that is there, to so many steps over all starts.
History train(Model& model, const Dataset& batches, const fs::path& folder, std::int64_t steps, RateSchedule rates) {
  DatasetBatches source(batches);
  LearningRate schedule(model.rate, std::move(rates));
  Progress progress;
  Checkpoints checkpoints(folder, {.keep = 2});
  CheckpointCallback saving(checkpoints, {.every_steps = 250});
  resume(model.trainer, checkpoints);
  return model.trainer.fit(source,
                           {.max_steps = steps, .callbacks = {&schedule, &progress, &saving}, .handle_signals = true});
}

/// Goes on with a text, character by character, each drawn by what the model makes of the window before it.
std::string continued(Model& model, std::string text, std::int64_t characters) {
  const Vocabulary vocabulary = Vocabulary::of_bytes();
  for (std::int64_t i = 0; i < characters; ++i) {
    // What stands behind the text does not matter: nothing looks ahead.
    std::vector<std::int32_t> window =
        vocabulary.tokens_of(text.substr(text.size() - std::min<std::size_t>(text.size(), kWindow)));
    const std::size_t last = window.size() - 1;
    window.resize(kWindow);
    auto [logits] = model.session.run(
        {model.net.logits},
        {{model.net.tokens, HostTensor::of<std::int32_t>({1, kWindow}, window)}, {model.net.is_training, false}});
    // Below 1 the temperature makes the likely likelier.
    const HostTensor next = sample(logits, {.temperature = 0.7}, static_cast<std::uint64_t>(i));
    text += vocabulary.text_of_tokens(next.values<std::int32_t>().subspan(last, 1));
  }
  return text;
}
// Here the lines end.

std::map<std::string, HostTensor> weights_of(Model& model) {
  std::map<std::string, HostTensor> weights;
  for (const Value& variable : model.graph.values(kTrainableVariables)) {
    weights.emplace(variable.name(), model.session.read(variable));
  }
  return weights;
}

double perplexity_of(Model& model, const Dataset& batches) {
  DatasetBatches source(batches);
  return model.trainer.evaluate(source).at("perplexity");
}

void print_peaks(Model& model) {
  const FeedTypes types = {{model.net.tokens, {kBatch, kWindow}},
                           {model.net.targets, {kBatch, kWindow}},
                           {model.net.is_training, true},
                           {model.rate, Shape{}}};
  const auto whole = model.session.plan({model.net.loss}, types, {.targets = model.manager.training_operations()});
  const auto sections = model.manager.plan(model.session, {model.net.loss}, types);
  std::cout << "a step of the whole graph takes " << bytes_text(whole.planned_peak_bytes) << ", in "
            << model.manager.sections().size() << " sections " << bytes_text(sections.planned_peak_bytes)
            << "; the budget is " << bytes_text(model.session.budget_bytes()) << "\n";
}

/// Fine-tunes a copy of the model on the ninth tenth of the text. True where it has learnt, by its last block alone.
bool fine_tune(Model& model, const std::string& checkpoint, const Texts& texts, const fs::path& folder) {
  Model tuned({.last_block_alone = true});
  load_variables(tuned.session, checkpoint, {.weights_only = true});
  train(tuned, texts.tune, folder, 60, constant_rate(1e-3));

  std::set<std::string> trained;
  for (const GradientAndVariable& pair : tuned.manager.updates().gradients) trained.insert(pair.variable.name());
  const auto before = weights_of(model), after = weights_of(tuned);
  const bool is_kept = std::all_of(before.begin(), before.end(), [&](const auto& weight) {
    return trained.contains(weight.first) != bitwise_equal(weight.second, after.at(weight.first));
  });
  const double first = perplexity_of(model, texts.test), now = perplexity_of(tuned, texts.test);
  std::cout << "fine-tuned " << trained.size() << " of " << before.size() << " variables: perplexity of the test "
            << first << " -> " << now << "; frozen variables kept their bytes: " << (is_kept ? "yes" : "no") << "\n";
  return is_kept && now < first;
}

int run(const Arguments& arguments, const std::vector<fs::path>& files, const fs::path& folder) {
  const Texts texts(files);
  const RateSchedule rates = warm_up(20, cosine_rate(2e-3, arguments.steps));
  const fs::path checkpoints = folder / "checkpoints";
  const bool shows = arguments.run.empty();
  if (shows) {
    Model ended;
    print_peaks(ended);
    train(ended, texts.train, checkpoints, arguments.steps / 2, rates);
  }
  Model model;
  const History history = train(model, texts.train, checkpoints, arguments.steps, rates);
  if (history.signal != 0) return history.exit_code();  // started again, it goes on from here
  std::cout << continued(model, arguments.prompt, arguments.characters) << "\n";

  const double reached = perplexity_of(model, texts.test);
  bool is_well = fine_tune(model, Checkpoints(checkpoints).list().back().path, texts, folder / "tuned");
  if (shows) {
    Model whole({.sections = 1, .device_memory = 64_MiB});
    train(whole, texts.train, folder / "whole", arguments.steps, rates);
    const auto expected = weights_of(whole), resumed = weights_of(model);
    const bool is_same = std::equal(
        expected.begin(), expected.end(), resumed.begin(), resumed.end(),
        [](const auto& a, const auto& b) { return a.first == b.first && bitwise_equal(a.second, b.second); });
    std::cout << "resumed in sections as if trained whole at once: " << (is_same ? "yes" : "no") << "\n";
    is_well = is_well && is_same && reached < 20;  // of 256 at first
  }
  return is_well ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Trains a small gpt on texts in sections, goes on where it was ended, writes text, and is fine-tuned.");
  app.add_option("--text", arguments.texts, "files to learn from; none: Debian's licences");
  app.add_option("--run", arguments.run, "folder for checkpoints, to go on from; none: one that goes at the end");
  app.add_option("--steps", arguments.steps, "of training, over all starts")
      ->check(CLI::Range(2, 10000000))
      ->capture_default_str();
  app.add_option("--prompt", arguments.prompt, "text that the model goes on with")
      ->check([](const std::string& text) { return text.empty() ? "wanted a character to begin with" : ""; })
      ->capture_default_str();
  app.add_option("--characters", arguments.characters, "that it writes")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  if (const auto status = read_arguments(app, argc, argv)) return *status;
  start_logging("15_char_gpt");
  try {
    std::vector<fs::path> files(arguments.texts.begin(), arguments.texts.end());
    try {
      if (files.empty()) files = licences();
    } catch (const DataError& error) {
      std::cerr << error.what() << "\n";
      return kNoTexts;
    }
    if (!arguments.run.empty()) return run(arguments, files, arguments.run);
    return run(arguments, files, TemporaryFolder("15_char_gpt").path());
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}

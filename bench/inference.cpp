// How long a frozen model of the zoo takes to answer, before and after its transforms, which take turns; and what it
// needs of device memory beside the least that any plan needs.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/median.h"
#include "bench/session_arguments.h"
#include "bench/zoo_arguments.h"
#include "graph/op_def.h"
#include "sectionflow.h"

namespace {

using namespace sectionflow;

struct Arguments {
  ZooArguments zoo{.model = "resnet50"};
  SessionArguments session;
  std::int64_t batch = 1;
  int runs = 50;
  int operations = 0;
  std::vector<std::string> transforms = {"", "fold_constants fold_batch_norms fuse",
                                         "fold_constants fold_batch_norms fuse pack_weights",
                                         "fold_constants fold_batch_norms fuse quantize_nodes pack_weights"};
};

/// Those feeds that the graph has placeholders for.
Feeds feeds_among(const Graph& graph, const Feeds& all) {
  Feeds own;
  for (const Feed& feed : all) {
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      Node& node = graph.node(id);
      if (node.name() == feed.value.name() && node.op().is_placeholder()) own.push_back({node.output(), feed.data});
    }
  }
  return own;
}

/// A graph for inference with a session of its own, and the milliseconds of its runs.
struct Contender {
  Contender(InferenceGraph graph, const std::string& transforms, const SessionOptions& options)
      : name(transforms.empty() ? "frozen" : transforms), made(std::move(graph)), session(*made.graph, options) {
    session.initialize();
  }
  Feeds feeds_of(const Feeds& all) const { return feeds_among(*made.graph, all); }
  void run(const Feeds& feeds) {
    const auto begin = std::chrono::steady_clock::now();
    session.run(made.outputs, feeds);
    samples.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }

  std::string name;
  InferenceGraph made;
  Session session;
  std::vector<double> samples;
};

/// The sample that 99 of 100 do not exceed.
double p99(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[(samples.size() * 99 + 99) / 100 - 1];
}

/// The text with what pack_weights has to know, where it says nothing.
std::string with_pack_arguments(const std::string& transforms, const Arguments& arguments) {
  return !transforms.ends_with("pack_weights")
             ? transforms
             : text_of(transforms, "(batch=", arguments.batch, ", threads=", arguments.session.threads, ")");
}

/// Prints which operations of a run take longest, in the median of some runs, and all of a kind together.
void print_operations(Contender& contender, const Feeds& feeds, int count, int runs) {
  Trace trace;
  contender.session.set_trace(&trace);
  for (int i = 0; i < runs; ++i) contender.run(contender.feeds_of(feeds));
  contender.session.set_trace(nullptr);
  std::map<NodeId, std::vector<double>> times;
  for (const Trace::Event& event : trace.events()) times[event.node].push_back(event.duration_us);
  std::vector<std::pair<double, std::string>> of_nodes, of_ops;
  std::map<std::string, double> by_op;
  for (const auto& [id, samples] : times) {
    const Node& node = contender.made.graph->node(id);
    const double us = median(samples);
    by_op[node.op().name] += us;
    of_nodes.emplace_back(us, node.op().name + " '" + node.name() + "' " + node.output_types()[0].text());
  }
  for (const auto& [op, us] : by_op) of_ops.emplace_back(us, op);
  for (auto* lines : {&of_ops, &of_nodes}) {
    std::sort(lines->rbegin(), lines->rend());
    if (lines->size() > static_cast<std::size_t>(count)) lines->resize(static_cast<std::size_t>(count));
    for (const auto& [us, line] : *lines) std::printf("%9.1f us  %s\n", us, line.c_str());
  }
}

InferenceGraph frozen_model(const Arguments& arguments, const SessionOptions& options, Batch& batch, Feeds& feeds,
                            Graph& graph, GraphSectionManager& manager) {
  const ZooModel model = model_of(arguments.zoo, Cut{});
  const TrainableModel built = model.build(graph, manager);
  SF_CHECK(built.logits.valid(), ArgumentError, "--model ", arguments.zoo.model, " has no logits to ask for");
  batch = model.batch({.batch = arguments.batch, .seed = 1, .step = 0});
  feeds = built.feeds(batch);
  Feeds fixed;
  for (const Feed& feed : feeds) {
    if (feed.value.dtype() == Dtype::boolean) fixed.push_back({feed.value, false});
  }
  Session session(graph, options);
  session.initialize();
  return freeze(session, {built.logits}, {.feeds = fixed});
}

/// The graph of a text; ranges for quantize_nodes are those of the batch that is fed, at the place where it stands.
InferenceGraph made_by(const std::string& transforms, const InferenceGraph& frozen, const Feeds& feeds,
                       std::int64_t batch, const SessionOptions& options) {
  const std::size_t at = transforms.find("quantize_nodes");
  if (at == std::string::npos) return transform_graph(frozen, transforms);
  InferenceGraph made = transform_graph(frozen, transforms.substr(0, at));
  Example example;
  for (const Feed& feed : feeds_among(*made.graph, feeds)) {
    HostTensor tensor(feed.data.type());
    std::copy_n(feed.data.bytes(), tensor.num_bytes(), tensor.bytes());
    example.emplace(feed.value.name(), std::move(tensor));
  }
  made.ranges = calibrate(made, Dataset::from(std::move(example)).batch({.size = batch}), {.session = options});
  std::printf("%s", quantize_report(made).text().c_str());
  return transform_graph(made, transforms.substr(at));
}

int run(const Arguments& arguments) {
  const SessionOptions options = session_options(arguments.session);
  Graph graph;
  GraphSectionManager manager(graph);
  Batch batch;
  Feeds feeds;
  const InferenceGraph frozen = frozen_model(arguments, options, batch, feeds, graph, manager);
  std::vector<std::unique_ptr<Contender>> contenders;
  for (const std::string& text : arguments.transforms) {
    const std::string whole = with_pack_arguments(text, arguments);
    contenders.push_back(
        std::make_unique<Contender>(made_by(whole, frozen, feeds, arguments.batch, options), whole, options));
  }
  for (int i = 0; i < arguments.runs + 2; ++i) {
    for (auto& contender : contenders) contender->run(contender->feeds_of(feeds));
  }
  std::printf("%s, batch %lld, %d runs in turn\n%9s %9s %6s %11s %11s  %s\n", arguments.zoo.model.c_str(),
              static_cast<long long>(arguments.batch), arguments.runs, "median ms", "p99 ms", "ratio", "peak",
              "of bound", "graph");
  double first = 0;
  for (auto& contender : contenders) {
    contender->samples.erase(contender->samples.begin(), contender->samples.begin() + 2);
    const double middle = median(contender->samples);
    if (first == 0) first = middle;
    const ProgramReport report = contender->session.plan(contender->made.outputs, types_of(contender->feeds_of(feeds)));
    std::printf("%9.2f %9.2f %6.3f %11s %11.3f  %s\n", middle, p99(contender->samples), middle / first,
                bytes_text(report.planned_peak_bytes).c_str(),
                static_cast<double>(report.planned_peak_bytes) / static_cast<double>(report.lower_bound_bytes),
                contender->name.c_str());
  }
  for (auto& contender : contenders) {
    if (arguments.operations == 0) break;
    std::printf("operations of: %s\n", contender->name.c_str());
    print_operations(*contender, feeds, arguments.operations, arguments.runs);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Times of a frozen model, before and after its transforms.");
  add_zoo_arguments(app, arguments.zoo);
  add_session_arguments(app, arguments.session, "not used: all of the device");
  app.add_option("--batch", arguments.batch, "examples in a batch")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--runs", arguments.runs, "timed runs of each")->check(CLI::Range(1, 1000000))->capture_default_str();
  app.add_option("--operations", arguments.operations, "of each graph, tells so many operations that take longest")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  app.add_option("--transforms", arguments.transforms,
                 "texts of transforms, the first to compare with; '': none. A last pack_weights is for this batch and "
                 "these threads");
  return run_program(app, argc, argv, [&] { return run(arguments); });
}

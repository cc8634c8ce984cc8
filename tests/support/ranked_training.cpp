#include "tests/support/ranked_training.h"

#include <thread>

#include "base/error.h"

namespace sectionflow::testing {

std::vector<std::string> on_ranks(int ranks, const std::function<void(std::shared_ptr<Communicator>)>& call,
                                  std::chrono::milliseconds deadline) {
  std::vector<std::shared_ptr<Communicator>> communicators = in_process_communicators(ranks, {.deadline = deadline});
  std::vector<std::string> thrown(communicators.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < communicators.size(); ++r) {
    threads.emplace_back([&, r, communicator = std::move(communicators[r])]() mutable {
      try {
        call(std::move(communicator));
      } catch (const std::exception& error) {
        thrown[r] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

namespace {

/// The case with the batches of one rank: of each round of the one process that of its number.
TrainingCase case_of_rank(const RankedCase& ranked, int rank) {
  const TrainingCase whole = ranked.training_case(ranked.ranks, ranked.micro_batches);
  const int ranks = ranked.ranks;
  return {whole.name, [build = whole.build, rank, ranks](Graph& graph, GraphSectionManager& manager) {
            TrainingNet net = build(graph, manager);
            const auto dealt = [rank, ranks](const auto& feeds) {
              return [feeds, rank, ranks](std::int64_t step, FeedStore& store) {
                return feeds(step * ranks + rank, store);
              };
            };
            net.feeds = dealt(net.feeds);
            if (net.evaluation_feeds) net.evaluation_feeds = dealt(net.evaluation_feeds);
            return net;
          }};
}

std::string difference_in_update(const TrainingRecord& one, const TrainingRecord& of_rank, const RankedCase& ranked,
                                 int rank, std::int64_t update) {
  const auto round = [&](int i) { return static_cast<std::size_t>(update * ranked.micro_batches + i); };
  for (int i = 0; i < ranked.micro_batches; ++i) {
    const auto& same = one.steps[round(i) * static_cast<std::size_t>(ranked.ranks) + static_cast<std::size_t>(rank)];
    const std::string loss = first_difference(same.loss, of_rank.steps[round(i)].loss);
    if (!loss.empty()) return text_of("the loss of round ", i, " differs ", loss);
  }
  const auto& behind = one.steps[(round(ranked.micro_batches)) * static_cast<std::size_t>(ranked.ranks) - 1].variables;
  for (const auto& [name, tensor] : of_rank.steps[round(ranked.micro_batches) - 1].variables) {
    const auto found = behind.find(name);
    if (found == behind.end()) return text_of("one process has no variable '", name, "'");
    const std::string difference = first_difference(found->second, tensor);
    if (!difference.empty()) return text_of("variable '", name, "' differs ", difference);
  }
  return "";
}

}  // namespace

std::string first_difference_of_ranks(const RankedCase& ranked, How how, TrainOptions options,
                                      const std::function<void(int rank, TrainOptions&)>& options_of) {
  const std::int64_t updates = options.steps;
  options.threads = 1;
  TrainOptions alone = options;
  alone.steps = updates * ranked.ranks * ranked.micro_batches;
  alone.budget = -1;
  alone.on_session = {};
  alone.session = {};
  const TrainingRecord one =
      record_training(ranked.training_case(1, ranked.ranks * ranked.micro_batches), How::whole, alone);
  std::vector<TrainingRecord> records(static_cast<std::size_t>(ranked.ranks));
  const std::vector<std::string> thrown = on_ranks(ranked.ranks, [&](std::shared_ptr<Communicator> communicator) {
    const int rank = communicator->rank();
    TrainOptions own = options;
    own.steps = updates * ranked.micro_batches;
    if (options_of) options_of(rank, own);
    own.session.communicator = std::move(communicator);
    records[static_cast<std::size_t>(rank)] = record_training(case_of_rank(ranked, rank), how, own);
  });
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    if (!thrown[rank].empty()) return text_of("rank ", rank, ": ", thrown[rank]);
    for (const std::string& complaint : records[rank].complaints) return text_of("rank ", rank, ": ", complaint);
    for (std::int64_t update = 0; update < updates; ++update) {
      const std::string difference = difference_in_update(one, records[rank], ranked, static_cast<int>(rank), update);
      if (!difference.empty()) return text_of("rank ", rank, ", update ", update, ": ", difference);
    }
  }
  return "";
}

}  // namespace sectionflow::testing

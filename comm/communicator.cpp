#include "comm/communicator.h"

#include <cstring>
#include <tuple>

#include "base/error.h"
#include "base/one_at_a_time.h"
#include "comm/differences.h"
#include "comm/rounds.h"
#include "comm/throttled_transport.h"

namespace sectionflow {
namespace {

using namespace std::chrono_literals;

const std::byte* bytes_at(const void* pointer) {
  return static_cast<const std::byte*>(pointer);
}

constexpr auto kNothing = [](std::size_t) {};

}  // namespace

struct Communicator::State {
  State(std::unique_ptr<Transport> carrier, const CommunicatorOptions& given)
      : options(given), rank(carrier->rank()), size(carrier->size()), transport(std::move(carrier)) {
    if (options.link_bytes_per_second > 0 || options.link_latency > 0us) {
      transport = throttled(std::move(transport), options.link_bytes_per_second, options.link_latency);
    }
    // Calls allocate nothing.
    const auto ranks = static_cast<std::size_t>(size);
    calls_of_others.resize(ranks);
    tickets.resize(2 * ranks);
    flows.reserve(2 * ranks);
    std::get<0>(parts).resize(ranks);
    std::get<1>(parts).resize(ranks);
  }

  CommunicatorOptions options;
  int rank, size;
  OneAtATime guard;
  std::uint64_t num_calls = 0;
  std::uint64_t work = 0;
  std::vector<Call> calls_of_others;  // by rank
  std::vector<Transport::Ticket> tickets;
  Flows flows;
  std::tuple<std::vector<const float*>, std::vector<const std::int64_t*>> parts;  // of a sum, by rank
  std::unique_ptr<Transport> transport;  // goes first: it knows places in the vectors

  /// The i-th other rank, 0 <= i < size - 1, beginning behind this one, so that not all ranks turn to one at first.
  int other(int i) const { return (rank + 1 + i) % size; }

  /// This call of this rank, once all ranks have told that they make it.
  OpenCall begin(Call call) {
    call.number = ++num_calls;
    call.work = work;
    const OpenCall open(*transport, options.deadline, call);
    agree(open);
    return OpenCall(*transport, options.deadline, call);
  }

  void agree(const OpenCall& open) {
    const auto own = std::as_bytes(std::span(&open.call(), 1));
    for (int i = 0; i < size - 1; ++i) {
      const int rank_of_it = other(i);
      Call& theirs = calls_of_others[static_cast<std::size_t>(rank_of_it)];
      tickets[static_cast<std::size_t>(2 * i)] =
          transport->post_receive(rank_of_it, std::as_writable_bytes(std::span(&theirs, 1)));
      tickets[static_cast<std::size_t>(2 * i + 1)] = transport->post_send(rank_of_it, own);
    }
    for (int i = 0; i < size - 1; ++i) {
      open.wait(tickets[static_cast<std::size_t>(2 * i)], other(i));
      open.compare(calls_of_others[static_cast<std::size_t>(other(i))], other(i));
    }
    for (int i = 0; i < size - 1; ++i) open.wait(tickets[static_cast<std::size_t>(2 * i + 1)], other(i));
    calls_of_others[static_cast<std::size_t>(rank)] = open.call();
  }

  /// `bytes` go from `root` to each other rank.
  void send_to_all(const OpenCall& open, std::span<std::byte> bytes, int root) {
    flows.clear();
    for (int i = 0; rank == root && i < size - 1; ++i) {
      flows.push_back({.rank = other(i), .from = bytes.data(), .bytes = bytes.size()});
    }
    if (rank != root) flows.push_back({.rank = root, .to = bytes.data(), .bytes = bytes.size()});
    carry(open, flows, kNothing);
  }

  /// Each rank's stretch of `bytes` goes to all others, but to `root`, which has all of them; -1: nobody has.
  template <class StretchOf>
  void gather(const OpenCall& open, std::byte* bytes, const StretchOf& stretch_of, int root = -1) {
    flows.clear();
    for (int i = size - 2; rank != root && i >= 0; --i) {
      const Chunk theirs = stretch_of(other(i));
      flows.push_back(
          {.rank = other(i), .to = bytes + theirs.begin, .bytes = static_cast<std::size_t>(theirs.end - theirs.begin)});
    }
    const Chunk own = stretch_of(rank);
    for (int i = 0; i < size - 1; ++i) {
      if (other(i) == root) continue;
      flows.push_back(
          {.rank = other(i), .from = bytes + own.begin, .bytes = static_cast<std::size_t>(own.end - own.begin)});
    }
    carry(open, flows, kNothing);
  }

  /// The chunk of this rank, added up at `chunk`, behind `start`, which is of that chunk alone.
  template <class T, class ChunkOf>
  void add_chunk(const OpenCall& open, const T* x, const T* start, T* chunk, const ChunkOf& chunk_of_rank,
                 void* workspace) {
    const Chunk own = chunk_of_rank(rank);
    const std::size_t own_bytes = static_cast<std::size_t>(own.end - own.begin) * sizeof(T);
    const std::size_t scratch = scratch_of_a_rank(own_bytes);
    std::vector<const T*>& sources = std::get<std::vector<const T*>>(parts);
    flows.clear();
    for (int i = size - 2; i >= 0; --i) {
      std::byte* const place = static_cast<std::byte*>(workspace) + static_cast<std::size_t>(i) * scratch;
      flows.push_back({.rank = other(i), .to = place, .bytes = own_bytes, .by_turns = true});
    }
    for (int i = 0; i < size - 1; ++i) {
      const Chunk theirs = chunk_of_rank(other(i));
      flows.push_back({.rank = other(i),
                       .from = bytes_at(x + theirs.begin),
                       .bytes = static_cast<std::size_t>(theirs.end - theirs.begin) * sizeof(T)});
    }
    const auto add_piece = [&](std::size_t piece) {
      const std::size_t offset = piece * kPieceBytes / sizeof(T);
      if (offset * sizeof(T) >= own_bytes) return;
      const auto first = own.begin + static_cast<std::int64_t>(offset);
      for (std::size_t i = 0; i + 1 < static_cast<std::size_t>(size); ++i) {
        sources[static_cast<std::size_t>(flows[i].rank)] =
            reinterpret_cast<const T*>(flows[i].to + flows[i].offset(piece));
      }
      sources[static_cast<std::size_t>(rank)] = x + first;
      const auto count = static_cast<std::int64_t>(std::min(kPieceBytes, own_bytes - offset * sizeof(T)) / sizeof(T));
      add_in_rank_order(sources, start == nullptr ? nullptr : start + offset, chunk + offset, count);
    };
    carry(open, flows, add_piece);
    // A rank alone has nothing to wait for, and so no rounds.
    for (std::size_t piece = 0; size == 1 && piece * kPieceBytes < own_bytes; ++piece) add_piece(piece);
  }

  void check_root(int root, const char* call) const {
    SF_CHECK(root >= 0 && root < size, ArgumentError, call, " of rank ", root, " among ", size, " ranks; wanted 0 to ",
             size - 1);
  }

  template <class T>
  void check_sum(const T* x, std::int64_t elements, const T* sum, std::int64_t sums, const void* workspace) const {
    const std::size_t wanted = reduce_workspace(elements, size, dtype_of<T>);
    SF_CHECK((elements == 0 || x != nullptr) && (sums == 0 || sum != nullptr), ArgumentError, "a sum of ", elements,
             " elements over ranks has nullptr for its values or its result");
    SF_CHECK(wanted == 0 || (workspace != nullptr && reinterpret_cast<std::uintptr_t>(workspace) % sizeof(T) == 0),
             ArgumentError, "a sum of ", elements, " elements over ", size, " ranks needs ", wanted,
             " bytes of workspace, aligned to an element; got ", workspace);
  }

  /// By rank: the chunk of so many elements.
  auto chunks_of(std::int64_t elements) const {
    return [elements, ranks = size](int of) { return chunk_of(elements, of, ranks); };
  }

  template <class T>
  void all_reduce(const T* x, const T* start, T* sum, std::int64_t elements, void* workspace) {
    const auto entry = guard.enter("the communicator");
    check_sum(x, elements, sum, elements, workspace);
    const OpenCall open = begin(
        {.kind = CallKind::all_reduce_sum, .dtype = dtype_of<T>, .has_start = start != nullptr, .elements = elements});
    const std::int64_t own = chunk_of(elements, rank, size).begin;
    add_chunk(open, x, start == nullptr ? nullptr : start + own, sum + own, chunks_of(elements), workspace);
    gather(open, reinterpret_cast<std::byte*>(sum), [&](int of) {
      const Chunk chunk = chunk_of(elements, of, size);
      return Chunk{chunk.begin * static_cast<std::int64_t>(sizeof(T)),
                   chunk.end * static_cast<std::int64_t>(sizeof(T))};
    });
  }
};

Communicator::Communicator(std::unique_ptr<Transport> transport, const CommunicatorOptions& options) {
  check_communicator_options(options);
  SF_CHECK(transport != nullptr, ArgumentError, "a communicator without a transport");
  state_ = std::make_unique<State>(std::move(transport), options);
}

Communicator::~Communicator() = default;

int Communicator::rank() const {
  return state_->rank;
}
int Communicator::size() const {
  return state_->size;
}
std::string Communicator::description() const {
  return state_->transport->description();
}

void Communicator::set_work(std::uint64_t work) {
  const auto entry = state_->guard.enter("the communicator");
  state_->work = work;
}

void Communicator::barrier() {
  const auto entry = state_->guard.enter("the communicator");
  (void)state_->begin({.kind = CallKind::barrier});
}

void Communicator::broadcast(std::span<std::byte> bytes, int root) {
  State& state = *state_;
  const auto entry = state.guard.enter("the communicator");
  state.check_root(root, "broadcast");
  const auto size = static_cast<std::int64_t>(bytes.size());
  const OpenCall open = state.begin({.kind = CallKind::broadcast, .elements = size, .root = root});
  if (bytes.size() <= kShortBroadcast || state.size == 2) return state.send_to_all(open, bytes, root);
  // Each rank gets its stretch of the root and hands it on, so that the root sends no byte more than twice.
  const auto stretch_of = [&](int rank) { return chunk_of(size, rank, state.size); };
  state.flows.clear();
  const auto add = [&](int other, int owner) {
    const Chunk stretch = stretch_of(owner);
    std::byte* const place = bytes.data() + stretch.begin;
    const auto length = static_cast<std::size_t>(stretch.end - stretch.begin);
    state.flows.push_back(state.rank == root ? Flow{.rank = other, .from = place, .bytes = length}
                                             : Flow{.rank = other, .to = place, .bytes = length});
  };
  if (state.rank != root) add(root, state.rank);
  for (int i = 0; state.rank == root && i < state.size - 1; ++i) add(state.other(i), state.other(i));
  carry(open, state.flows, kNothing);
  state.gather(open, bytes.data(), stretch_of, root);
}

void Communicator::all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
  State& state = *state_;
  const auto entry = state.guard.enter("the communicator");
  const auto ranks = static_cast<std::size_t>(state.size);
  SF_CHECK(all.size() % ranks == 0 && all.size() / ranks == mine.size(), ArgumentError, "all_gather of ", mine.size(),
           " bytes from each of ", ranks, " ranks into ", all.size(), " bytes; wanted ", ranks, " times as many");
  const auto size = static_cast<std::int64_t>(mine.size());
  const OpenCall open = state.begin({.kind = CallKind::all_gather, .elements = size});
  std::byte* const own_place = all.data() + state.rank * size;
  if (size > 0 && own_place != mine.data()) std::memmove(own_place, mine.data(), mine.size());
  state.gather(open, all.data(), [&](int rank) { return Chunk{rank * size, (rank + 1) * size}; });
}

void Communicator::all_reduce_sum(const float* x, const float* start, float* sum, std::int64_t elements,
                                  void* workspace) {
  state_->all_reduce(x, start, sum, elements, workspace);
}
void Communicator::all_reduce_sum(const std::int64_t* x, const std::int64_t* start, std::int64_t* sum,
                                  std::int64_t elements, void* workspace) {
  state_->all_reduce(x, start, sum, elements, workspace);
}

void Communicator::reduce_scatter_sum(const float* x, const float* start, float* chunk, std::int64_t elements,
                                      void* workspace) {
  State& state = *state_;
  const auto entry = state.guard.enter("the communicator");
  const Chunk own = chunk_of(elements, state.rank, state.size);
  state.check_sum(x, elements, chunk, own.end - own.begin, workspace);
  const OpenCall open = state.begin(
      {.kind = CallKind::reduce_scatter_sum, .dtype = Dtype::f32, .has_start = start != nullptr, .elements = elements});
  state.add_chunk(open, x, start == nullptr ? nullptr : start + own.begin, chunk, state.chunks_of(elements), workspace);
}

namespace {

/// The part of `all` that rank `rank` has, where each has as many.
Chunk shard_of(std::int64_t all, std::int64_t shard, int rank) {
  return {std::min(all, rank * shard), std::min(all, (rank + 1) * shard)};
}

/// Throws: ArgumentError unless `ranks` shards are all of it, none so large that their sum overflows.
void check_shard(std::int64_t all, std::int64_t shard, int ranks) {
  SF_CHECK(all >= 0 && shard >= 0 && shard <= std::max<std::int64_t>(all, 0) && (all == 0 || (all - 1) / ranks < shard),
           ArgumentError, "shards of ", shard, " of ", all, " for ", ranks, " ranks; wanted ", ranks,
           " that are all of it, none of them more than that");
}

}  // namespace

void Communicator::reduce_scatter_shards(const float* x, const float* start, float* chunk, std::int64_t elements,
                                         std::int64_t shard, void* workspace) {
  State& state = *state_;
  const auto entry = state.guard.enter("the communicator");
  check_shard(elements, shard, state.size);
  const auto chunk_of_rank = [=](int rank) { return shard_of(elements, shard, rank); };
  const Chunk own = chunk_of_rank(state.rank);
  state.check_sum(x, elements, chunk, own.end - own.begin, workspace);
  const OpenCall open = state.begin({.kind = CallKind::reduce_scatter_sum,
                                     .dtype = Dtype::f32,
                                     .has_start = start != nullptr,
                                     .elements = elements,
                                     .root = shard});
  state.add_chunk(open, x, start, chunk, chunk_of_rank, workspace);
}

void Communicator::reduce_sum(const float* x, const float* start, float* sum, std::int64_t elements, int root,
                              void* workspace) {
  State& state = *state_;
  const auto entry = state.guard.enter("the communicator");
  state.check_root(root, "reduce_sum");
  const bool is_root = state.rank == root;
  state.check_sum(x, is_root ? elements * state.size : 0, sum, is_root ? elements : 0, workspace);
  const OpenCall open = state.begin({.kind = CallKind::reduce_sum,
                                     .dtype = Dtype::f32,
                                     .has_start = start != nullptr,
                                     .elements = elements,
                                     .root = root});
  const auto chunk_of_rank = [=](int rank) { return Chunk{0, rank == root ? elements : 0}; };
  state.add_chunk(open, x, start, sum, chunk_of_rank, workspace);
}

void Communicator::all_gather_shards(std::span<const std::byte> mine, std::span<std::byte> all,
                                     std::size_t shard_bytes) {
  State& state = *state_;
  const auto entry = state.guard.enter("the communicator");
  const auto size = static_cast<std::int64_t>(all.size()), shard = static_cast<std::int64_t>(shard_bytes);
  check_shard(size, shard, state.size);
  const auto stretch_of = [=](int rank) { return shard_of(size, shard, rank); };
  const Chunk own = stretch_of(state.rank);
  const auto own_bytes = static_cast<std::size_t>(own.end - own.begin);
  SF_CHECK(mine.size() >= own_bytes, ArgumentError, "all_gather_shards: this rank gives ", mine.size(),
           " bytes; wanted ", own_bytes);
  const OpenCall open = state.begin({.kind = CallKind::all_gather, .elements = size, .root = shard});
  std::byte* const own_place = all.data() + own.begin;
  if (own_bytes > 0 && own_place != mine.data()) std::memmove(own_place, mine.data(), own_bytes);
  state.gather(open, all.data(), stretch_of);
}

void Communicator::expect_same(std::string_view what, std::string_view text) {
  State& state = *state_;
  const auto entry = state.guard.enter("the communicator");
  const std::string whole = comparable_text(what, text);
  const OpenCall open = state.begin({.kind = CallKind::expect_same,
                                     .elements = static_cast<std::int64_t>(whole.size()),
                                     .digest = text_digest(whole)});
  const std::vector<Call>& calls = state.calls_of_others;
  const int other = first_that_differs(calls);
  if (other < 0) return;
  // All ranks know which texts differ, and so all exchange these two.
  const auto text_of_rank = [&](int rank) {
    std::string copy = state.rank == rank
                           ? whole
                           : std::string(static_cast<std::size_t>(calls[static_cast<std::size_t>(rank)].elements), ' ');
    state.send_to_all(open, std::as_writable_bytes(std::span(copy)), rank);
    return copy;
  };
  const std::string first = text_of_rank(0), second = text_of_rank(other);
  throw_difference(open, first, second, other);
}

void Communicator::fail(std::string_view why) noexcept {
  CommunicationFailure failure{state_->rank, ErrorCode::communication, {}};
  try {
    failure.text = why;
  } catch (...) {
    failure.text.clear();  // others learn that it has failed, if not why
  }
  state_->transport->fail(failure);
}

}  // namespace sectionflow

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/export.h"

namespace SF_API sectionflow {

class Transport;

/// How long a rank waits for others, and how fast their link is.
struct CommunicatorOptions {
  /// The longest that a rank waits in a call without a message from the rank that it waits for: messages are of 256 KiB
  /// at most. Longer than the slowest rank computes between two calls. From 1 ms to a year.
  std::chrono::milliseconds deadline{60'000};

  // For tests and measurements: the link by which a rank sends to all others, as if it were slower than it is.
  /// Bytes a second, at least 1000; 0: as fast as it is.
  double link_bytes_per_second = 0;
  /// What each message takes longer; at most 10 s.
  std::chrono::microseconds link_latency{0};
};

/// A stretch of elements, [begin, end).
struct Chunk {
  std::int64_t begin, end;
};
/// The elements that a rank adds up for all: equal stretches, the last ones shorter or empty. Each ends at a multiple
/// of 16 elements or at the last. Throws: ArgumentError unless elements >= 0 and 0 <= rank < ranks.
Chunk chunk_of(std::int64_t elements, int rank, int ranks);

/// Ranks that compute together: threads of one process, or processes. Every rank makes the same calls in the same
/// order, with as many bytes. A call returns when this rank may go on; what was given to it may then be used again.
///
/// Sums are taken in rank order, ((start + x of rank 0) + x of rank 1) + ..., whatever carries the bytes: their bits
/// depend on what the ranks give and on nothing else, and are the same on all ranks. Denormal numbers count as zero, as
/// they do for kernels.
///
/// No byte moves before all ranks have told each other the call that they make. Calls allocate nothing, but
/// expect_same, what throws, and what MPI does by itself; they begin no threads.
///
/// Threads: one call at a time, from any thread; fail() at any time. Every call throws
/// - ArgumentError for what this rank alone can see to be wrong, a second thread in a call included (SF-E012), before
///   anything is sent;
/// - CommunicationError that names call and rank, where another rank has not come by the deadline, has ended or has
///   failed (SF-E510), or makes another call (SF-E511). From then on every call of every rank throws at once. What the
///   call was to write is then undefined.
class Communicator {
 public:
  /// What in_process_communicators and mpi_communicator make, which users call. Throws: ArgumentError for options out
  /// of range.
  explicit Communicator(std::unique_ptr<Transport> transport, const CommunicatorOptions& options = {});
  /// Leaves: calls of others that need this rank throw from here on. By MPI it waits until all have left, as the end of
  /// MPI does; after a failure no longer than a second.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const;  ///< of this thread or process, from 0
  int size() const;  ///< how many ranks there are
  /// "3 ranks in one process", "4 ranks by MPI (Open MPI v4.1.4)"
  std::string description() const;

  /// Returns when all ranks have come to it.
  void barrier();
  /// The bytes of rank `root` come to all others.
  void broadcast(std::span<std::byte> bytes, int root);
  /// all = the bytes of every rank, in rank order; `mine` are as many on each, and may be their own place in `all`.
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all);

  /// Bytes of scratch, aligned to an element, that a sum of so many elements needs: at most 512 KiB for each other
  /// rank, 0 for one rank. Throws: ArgumentError unless elements >= 0, ranks >= 1, and the dtype is f32 or i64.
  static std::size_t reduce_workspace(std::int64_t elements, int ranks, Dtype dtype = Dtype::f32);
  /// sum = start + x of rank 0 + x of rank 1 + ..., by element. `start` is the same on all ranks; nullptr, on all
  /// ranks: the sum begins with x of rank 0. `sum` may be x or start, and otherwise overlaps neither. Each rank adds up
  /// its chunk (chunk_of), and the chunks are gathered.
  void all_reduce_sum(const float* x, const float* start, float* sum, std::int64_t elements, void* workspace);
  /// The same of integers, which wrap around.
  void all_reduce_sum(const std::int64_t* x, const std::int64_t* start, std::int64_t* sum, std::int64_t elements,
                      void* workspace);
  /// The same, of which each rank gets its own chunk alone: elements [begin, end) of chunk_of(elements, rank(),
  /// size()). `chunk` may be x + begin or start + begin, and otherwise overlaps neither.
  void reduce_scatter_sum(const float* x, const float* start, float* chunk, std::int64_t elements, void* workspace);
  /// The same, of which rank r gets the elements [r shard, (r + 1) shard) that there are. `start` is of these alone, as
  /// `chunk` is, which may be `start` or its place in x. Workspace: reduce_workspace(shard * size(), size()).
  void reduce_scatter_shards(const float* x, const float* start, float* chunk, std::int64_t elements,
                             std::int64_t shard, void* workspace);
  /// The same, of which rank `root` gets all, and no other anything: `start`, which is nullptr on all ranks or on none,
  /// is read there alone, as `sum` is written and `workspace` (reduce_workspace(elements * size(), size())) needed.
  void reduce_sum(const float* x, const float* start, float* sum, std::int64_t elements, int root, void* workspace);
  /// all = the bytes [r shard_bytes, (r + 1) shard_bytes) of each rank r, as far as they are within `all`; `mine` are
  /// those of this rank, shard_bytes or what `all` has of them at least, and may be their own place in `all`.
  void all_gather_shards(std::span<const std::byte> mine, std::span<std::byte> all, std::size_t shard_bytes);

  /// Compares a text that must be the same on all ranks; `what` says what it is of: "the plan of the training step".
  /// Throws, on every rank: CommunicationError (SF-E512) that names the first rank whose text differs from rank 0's,
  /// and the line in which it does. The communicator may be used further.
  void expect_same(std::string_view what, std::string_view text);

  /// What the calls from here on are for, as a number that is the same on all ranks; 0 at first. It is compared with
  /// each call: ranks whose calls are alike and are for other work throw (SF-E511) before a byte moves.
  void set_work(std::uint64_t work);

  /// Ends the calls of all ranks, this one's included, which throw a CommunicationError with this text: for a rank that
  /// cannot go on. From any thread.
  void fail(std::string_view why) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// `ranks` communicators, of threads of this process: communicator r is rank r, and goes to a thread of its own.
/// Throws: ArgumentError unless 1 <= ranks <= 1024, or for options out of range.
std::vector<std::shared_ptr<Communicator>> in_process_communicators(int ranks, const CommunicatorOptions& options = {});

/// This process as a rank among those that `mpirun -n 4 program` has started. Begins MPI, by libsectionflow_mpi.so,
/// unless the program has, and ends it with the communicator; one a process. Throws: ArgumentError where there is one,
/// or for options out of range; CommunicationError (SF-E513) that says what is missing: a launcher, the shared object,
/// MPI's library; as calls do, where a rank does not come. The beginning of MPI itself waits for all ranks, though,
/// however long they take.
std::shared_ptr<Communicator> mpi_communicator(const CommunicatorOptions& options = {});

}  // namespace sectionflow

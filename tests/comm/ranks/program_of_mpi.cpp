// One rank of a program that begins and ends MPI by itself, started by mpirun from tests/comm/mpi.cpp:
// `comm_program_of_mpi MODE`. Each rank prints a line that begins with "rank 1: ", as one write.

#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "base/error.h"
#include "comm/communicator.h"

namespace {

using namespace sectionflow;
using namespace std::chrono_literals;

int rank_of_world() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

void say(int rank, const std::string& text) {
  const std::string line = text_of("rank ", rank, ": ", text, "\n");
  (void)!write(STDOUT_FILENO, line.data(), line.size());
}

int freed = 0;

int count_freed(MPI_Comm, int, void*, void*) {
  ++freed;
  return MPI_SUCCESS;
}

/// Worlds are made after MPI's own, with what is attached to it, and MPI tells when they are freed.
void let_go_twice() {
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_DUP_FN, count_freed, &key, nullptr);
  MPI_Comm_set_attr(MPI_COMM_WORLD, key, nullptr);
  for (int i = 0; i < 2; ++i) mpi_communicator()->barrier();
  say(rank_of_world(), text_of(freed, " of 2 freed"));
}

/// Rank 1 comes when rank 0 has given up once.
void try_again() {
  const int rank = rank_of_world();
  int word = 0;
  if (rank == 0) {
    try {
      (void)mpi_communicator({.deadline = 1ms});
      say(rank, "nobody was missed");
    } catch (const CommunicationError& error) {
      say(rank, error.what());
    }
    MPI_Send(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
  } else {
    MPI_Recv(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  const auto communicator = mpi_communicator();
  communicator->barrier();
  say(rank, communicator->description());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
  if (mode == "let_go") let_go_twice();
  if (mode == "try_again") try_again();
  if (mode != "end_first") return MPI_Finalize();
  const auto communicator = mpi_communicator();
  communicator->barrier();
  MPI_Finalize();
  communicator->fail("MPI has ended");
  say(communicator->rank(), "has ended MPI");
  return 0;
}

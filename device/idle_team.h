#pragma once

namespace sectionflow {

/// Has threads that wait for parallel regions of a team of so many sleep almost at once, from then on and in the whole
/// process. libgomp's spin for milliseconds, which on a machine that is busy with other work are taken from whoever
/// they wait for; but where OpenMP has more threads than the process has cores they give up after some microseconds
/// (its manual, GOMP_SPINCOUNT). So there come to be more: a team that nobody gives work to, which sleeps as long as
/// the process lives.
///
/// Does nothing where OMP_WAIT_POLICY or GOMP_SPINCOUNT says how threads are to wait, for a team of one thread, and
/// where OpenMP is not libgomp. Where the thread that begins them cannot be had, threads spin
/// on. Changes no bit.
void keep_idle_team(int threads);

}  // namespace sectionflow

#pragma once

#include <cstdint>
#include <vector>

#include "autodiff/updates.h"
#include "base/export.h"
#include "runtime/session.h"

namespace SF_API sectionflow {

/// While it lives, the averages of weights stand in the place of the weights, for evaluating or saving by any strategy:
/// `{ AveragedWeights averaged(session, updates.averages); evaluate(session); }`. Each variable and its average are
/// exchanged when it begins, and back when it ends, by way of the host, a variable at a time. Until then the session
/// refuses to train, as do Checkpoints::save, what loads or restores variables, and Session::initialize; save_variables
/// writes the averages under the variables' names.
/// Owns: nothing; the session must outlive it. Move: none. Threads: as Session.
class AveragedWeights {
 public:
  /// Throws: ArgumentError (SF-E035) without averages, for one that is listed twice, and while another of the session
  /// lives; as Session::read for values that are no variables, before initialize(), and while a forward half is
  /// pending. Nothing has changed then.
  AveragedWeights(Session& session, std::vector<AveragedVariable> averages, Where where = Where::here());
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;
  /// Does not throw: where the weights cannot come back, as while a forward half is pending, the log says so, and the
  /// session goes on refusing to train.
  ~AveragedWeights();

 private:
  Session& session_;
  std::vector<AveragedVariable> averages_;
  std::uint64_t write_before_ = 0, write_in_place_ = 0;  // the session's last, before and behind the exchange
};

}  // namespace sectionflow

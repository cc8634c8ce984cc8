#include "train/averaged_weights.h"

#include <glog/logging.h>

#include <set>
#include <utility>

#include "base/error.h"
#include "runtime/engine.h"

namespace sectionflow {
namespace {

void write_or_tell(Session& session, Value variable, const HostTensor& tensor) {
  try {
    session.write(variable, tensor);
  } catch (const std::exception& error) {
    LOG(ERROR) << "AveragedWeights: '" << variable.name() << "' has not come back: " << error.what();
  }
}

/// A home on disk may refuse what is written: both then are as they were, or refused until they are written again.
void exchange(Session& session, const AveragedVariable& pair) {
  const HostTensor weight = session.read(pair.variable), average = session.read(pair.average);
  bool is_half_done = false;
  try {
    session.write(pair.variable, average);
    is_half_done = true;
    session.write(pair.average, weight);
  } catch (...) {
    write_or_tell(session, pair.variable, weight);
    if (is_half_done) write_or_tell(session, pair.average, average);
    throw;
  }
}

}  // namespace

AveragedWeights::AveragedWeights(Session& session, std::vector<AveragedVariable> averages, Where where)
    : session_(session), averages_(std::move(averages)) {
  write_before_ = engine(session_).last_write();
  call_at(where, [&] {
    SF_CHECK_CODE(!averages_.empty(), ArgumentError, ErrorCode::averages_in_place,
                  "AveragedWeights: there are no averages", hint("train with .average = WeightAverageOptions{}"));
    SF_CHECK_CODE(!engine(session_).is_training_refused(), ArgumentError, ErrorCode::averages_in_place,
                  "AveragedWeights: averages stand in the place of this session's weights already",
                  hint("end the other AveragedWeights first"));
    std::set<NodeId> exchanged;
    for (const AveragedVariable& pair : averages_) {
      const HostTensor weight = session_.read(pair.variable), average = session_.read(pair.average);
      SF_CHECK(weight.type() == average.type(), ShapeError, "AveragedWeights: variable '", pair.variable.name(),
               "' is ", weight.type().text(), ", its average '", pair.average.name(), "' ", average.type().text());
      for (const Value& each : {pair.variable, pair.average}) {
        SF_CHECK_CODE(exchanged.insert(each.node().id()).second, ArgumentError, ErrorCode::averages_in_place,
                      "AveragedWeights: '", each.name(),
                      "' is listed twice; wanted each variable, and each average, once",
                      hint("exchanged twice they would be where they were"));
      }
    }
    std::size_t done = 0;
    try {
      for (; done < averages_.size(); ++done) exchange(session_, averages_[done]);
    } catch (...) {
      while (done-- > 0) exchange(session_, averages_[done]);
      engine(session_).set_back_to_write(write_before_);
      throw;
    }
  });
  write_in_place_ = engine(session_).last_write();
  engine(session_).set_training_refused("averages stand in the place of the weights: AveragedWeights still lives");
}

AveragedWeights::~AveragedWeights() {
  try {
    const bool is_untouched = engine(session_).last_write() == write_in_place_;
    for (std::size_t i = averages_.size(); i-- > 0;) exchange(session_, averages_[i]);
    if (is_untouched) engine(session_).set_back_to_write(write_before_);
    engine(session_).set_training_refused(nullptr);
  } catch (const std::exception& error) {
    LOG(ERROR) << "AveragedWeights: the weights have not come back: " << error.what();
  }
}

}  // namespace sectionflow

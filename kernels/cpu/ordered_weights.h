#pragma once

#include <cstddef>

#include "kernels/cpu/onednn_call.h"

namespace sectionflow {

/// An input that a kernel reads in an order of oneDNN's: copied into it at each launch, but where it lies so, or is
/// given so.
class OrderedWeights {
 public:
  OrderedWeights() = default;
  /// `plain`: how the input lies; `wanted`: how the kernel reads it.
  OrderedWeights(OneDnn& onednn, const dnnl::memory::desc& plain, const dnnl::memory::desc& wanted)
      : plain_(plain), wanted_(wanted) {
    if (plain != wanted) copy_ = make_reorder(onednn, plain, wanted);
  }

  const dnnl::memory::desc& plain() const { return plain_; }
  const dnnl::memory::desc& wanted() const { return wanted_; }
  bool are_copied() const { return copy_.valid(); }
  /// From here on they are given as they are wanted.
  void take_packed() { copy_ = {}; }

  /// Of the copy; 0 where there is none.
  std::size_t bytes() const { return are_copied() ? wanted_.get_size() : 0; }
  std::size_t scratchpad_bytes() const { return copy_.scratchpad_bytes(); }
  std::size_t library_bytes() const { return copy_.library_bytes(); }

  /// The weights as they are wanted, at `place` where they have to be copied.
  const void* in_order(const void* weights, void* place, void* scratchpad) {
    if (!are_copied()) return weights;
    copy_.launch({weights, place}, scratchpad);
    return place;
  }

 private:
  dnnl::memory::desc plain_, wanted_;
  OneDnnCall copy_;
};

/// What a kernel is besides whose input may be packed (kernels/packed_weights.h).
class ReadsOrderedWeights {
 public:
  virtual ~ReadsOrderedWeights() = default;

  /// Which of its inputs that is.
  virtual std::size_t weights_input() const = 0;
  virtual const OrderedWeights& weights() const = 0;
  /// From here on launches are given that input as it is wanted. Asked before workspace_bytes().
  virtual void take_packed() = 0;
};

}  // namespace sectionflow

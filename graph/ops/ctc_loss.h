#pragma once

#include <cstdint>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// Which class is no label, and what becomes of labels that do not fit.
struct CtcLossOptions {
  std::int64_t blank = 0;      ///< the class of steps without a label; in [0, C)
  bool zero_infinity = false;  ///< an infinite loss, and its gradient, is 0
};

/// Connectionist temporal classification: loss[n] = -ln of the probability that the first input_lengths[n] steps say
/// the first label_lengths[n] labels, over all ways to spread them. A step is a label or a blank, with the
/// probabilities softmax(logits[n, t]); a label may last for several steps, and two equal ones that follow each other
/// need a blank between them. These are the losses of torch.nn.functional.ctc_loss(log_softmax(logits), ...) without
/// reduction, of batches that come first; its mean divides each loss by max(label length, 1) before. Logits may as well
/// be logarithms of probabilities, which log_softmax leaves as they are. What lies behind the lengths is not read.
///
/// A loss is infinite where a batch has fewer steps than its labels and their blanks take: its gradient is NaN, or with
/// `zero_infinity` both are 0. A label outside of [0, C), or the blank, and lengths outside of [0, T] and [0, S] give a
/// NaN loss and NaN gradients for their example. The sums are logarithms in f32, relative to the largest of a step.
///
/// Shapes: logits [N, T, C] f32, or bf16, of which it computes in f32; labels [N, S] and lengths [N] i32 or i64; result
/// [N] f32. Throws: ShapeError, ArgumentError. The gradient goes to the logits alone, and is refused for second
/// derivatives. It computes probabilities and sums again; the op keeps two numbers a step, its second output [N, T, 2].
/// Source: Graves et al. 2006.
Value ctc_loss(Value logits, Value labels, Value input_lengths, Value label_lengths, CtcLossOptions options = {},
               Where where = Where::here());

/// dlogits. `statistics`: the second output of the forward op.
Value ctc_loss_grad(Value dloss, Value statistics, Value logits, Value labels, Value input_lengths, Value label_lengths,
                    CtcLossOptions options);

}  // namespace sectionflow

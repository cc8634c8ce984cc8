#pragma once

#include <string_view>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"
#include "graph/ops/matmul.h"

namespace SF_API sectionflow {

/// The sum of products that a text says, as in numpy and in papers: an index a letter, one an axis. Each element of the
/// result is the sum, over all indices that the result has not, of the product of the operands' elements.
///
///     einsum("bij,bjk->bik", {a, b})            // a product of matrices, for each of a batch
///     einsum("bthd,bshd->bhts", {q, k})         // every query with every key
///     einsum("...i,ij->...j", {x, w})           // of x with any axes in front
///     einsum("ii->", {x})                       // a trace
///
/// "..." stands for the axes that no letter names, aligned at the last of them; of these, and of no others, one of size
/// 1 is repeated. Without "->" the result has the axes of "...", then the letters that stand once, in the order of
/// ASCII. White space counts for nothing. An index twice in one operand is a diagonal: its size must be known, and the
/// whole operand is read and a tensor of its size written. A sum over an index without values is 0 between operands,
/// and refused within one, as by reduce_sum.
///
/// Indices of one operand alone are summed first. Two operands become one matmul, or one product of elements where
/// nothing is summed, and axes are transposed only where no reading of the operands fits; of the ways to do it, that
/// which moves the fewest elements. Of several operands those two come first that take the fewest multiplications
/// (unknown sizes count as 64), of equal ones those of the smallest product, then the first.
///
/// Where the feed decides sizes, each letter is held to one size in all operands then. An axis of "..." is held to the
/// size that another operand is known to have; where none is known, a fed 1 is repeated if nothing is summed, and
/// refused by matmul if something is.
/// Shapes: operands any, all f32 or all bf16; result of its indices. Any dimension may be unknown, several where no
/// axes have to be joined. Throws: ArgumentError for a text that is none, with the place, and for dtypes; ShapeError
/// for operands that do not fit the text, or each other, and for a product of more than Shape::kMaxRank axes.
Value einsum(std::string_view text, const std::vector<Value>& operands, Where where = Where::here());

/// a b as numpy.matmul: of any two batches of matrices that broadcast. A vector counts as a row in front and as a
/// column behind, and the result is without that axis; its transpose is itself. Nothing is repeated: what one side has
/// alone becomes rows or columns of one matmul, by transposes where need be.
/// Shapes: a [..., M, K] or [K], b [..., K, N] or [K]; result [..., M, N] with the broadcast of both. f32 or bf16.
/// Throws: ShapeError, ArgumentError for other dtypes.
Value broadcast_matmul(Value a, Value b, MatmulOptions options = {}, Where where = Where::here());

}  // namespace sectionflow
